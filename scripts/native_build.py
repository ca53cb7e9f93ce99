"""Build the C++ code with ninja: the torch-free core, the torch extension, and the core's tests.

`setup.py` and the Makefile call this; `python scripts/native_build.py --help` lists the targets.
The core (csrc/flex, csrc/emulator) includes no torch header, so it compiles in seconds and can be
built separately with sanitizers.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from shlex import quote

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "torch_spyre" / "csrc"
# No contraction: a fused multiply-add would change results on hosts that have it.
LANGUAGE = "-std=c++20 -fPIC -fvisibility=hidden -ffp-contract=off -pthread"
FLAGS = f"{LANGUAGE} -Wall -Wextra -Werror -I{quote(str(SOURCES))}"
ISA_FLAGS = {
    "_avx2": "-mavx2 -mf16c -mfma",
    "_avx512": "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c -mfma",
}
OPTIMISATION = "-O3 -g1"
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"


def core_sources() -> list[Path]:
    folders = ("flex", "emulator", "emulator/engine")
    sources = [source for folder in folders for source in sorted((SOURCES / folder).glob("*.cpp"))]
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return [s for s in sources if is_x86 or not s.stem.endswith(tuple(ISA_FLAGS))]


def isa_flags(source: Path) -> str:
    return next((flags for suffix, flags in ISA_FLAGS.items() if source.stem.endswith(suffix)), "")


def torch_flags() -> tuple[str, str]:
    """Return compile and link flags for files that include torch headers."""
    # Importing torch must not load the extension that is about to be built.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    from torch.utils import cpp_extension

    includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    compile_flags = " ".join(f"-isystem {quote(path)}" for path in includes)
    compile_flags += f" -D_GLIBCXX_USE_CXX11_ABI={abi} -DTORCH_EXTENSION_NAME=_C"
    libraries = " ".join(f"-L{quote(path)}" for path in cpp_extension.library_paths())
    return compile_flags, f"{libraries} -lc10 -ltorch_cpu -ltorch -ltorch_python"


def kineto_flags() -> str:
    """Return compile flags for files that include Kineto's headers.

    The headers include each other without a folder. The torch library does not export fmt.
    """
    from torch.utils import cpp_extension

    folders = [f"{path}/kineto" for path in cpp_extension.include_paths()]
    includes = " ".join(f"-isystem {quote(path)}" for path in folders)
    return f"{torch_flags()[0]} {includes} -DUSE_KINETO -DFMT_HEADER_ONLY"


def escaped(path: Path | str) -> str:
    """Return a path escaped for a build statement."""
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


class NinjaFile:
    """The build file of one target. Targets with the same flags use one folder and its objects."""

    def __init__(self, folder: Path, target: str, optimisation: str) -> None:
        self.folder = folder
        self.path = folder / f"{target}.ninja"
        compiler = os.environ.get("CXX", "g++")
        self.lines = [
            "ninja_required_version = 1.5",
            f"builddir = {escaped(folder)}",
            "rule compile",
            f"  command = {compiler} -MMD -MF $out.d {FLAGS} {optimisation} $flags $in -o $out",
            "  depfile = $out.d",
            "  deps = gcc",
            "  description = compile $in",
            "rule link",
            f"  command = {compiler} {optimisation} $in $flags -o $out",
            "  description = link $out",
        ]

    def compile(self, sources: list[Path], flags: str = "") -> str:
        objects = []
        for source in sources:
            target = self.folder / source.relative_to(ROOT).with_suffix(".o")
            self.lines += [
                f"build {escaped(target)}: compile {escaped(source)}",
                f"  flags = -c {flags} {isa_flags(source)}",
            ]
            objects.append(escaped(target))
        return " ".join(objects)

    def link(self, target: Path, objects: str, flags: str) -> None:
        self.lines += [f"build {escaped(target)}: link {objects}", f"  flags = {flags}"]

    def run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(self.lines) + "\n")
        ninja = shutil.which(
            "ninja", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        if ninja is None:
            raise SystemExit("ninja was not found; install it with: pip install ninja")
        subprocess.run([ninja, "-f", str(self.path)], check=True, cwd=ROOT)


def build_extension(target: Path, folder: Path) -> None:
    ninja = NinjaFile(folder, "extension", OPTIMISATION)
    core = ninja.compile(core_sources())
    compile_flags, link_flags = torch_flags()
    folders = ("torch", "emulator_bindings")
    sources = [source for folder in folders for source in sorted((SOURCES / folder).glob("*.cpp"))]
    glue = ninja.compile(sources, compile_flags)
    glue += f" {ninja.compile(sorted((SOURCES / 'profiler').glob('*.cpp')), kineto_flags())}"
    ninja.link(target, f"{core} {glue}", f"-shared -pthread -ldl {link_flags}")
    ninja.run()


def build_core_tests(folder: Path, sanitize: bool) -> Path:
    """Build one executable with all tests of tests/cpp, and return its path."""
    optimisation = f"-O1 -g {SANITIZERS}" if sanitize else OPTIMISATION
    ninja = NinjaFile(folder, "core-tests", optimisation)
    # The tests themselves need no speed, and compile in half the time without it.
    tests = ninja.compile(sorted((ROOT / "tests/cpp").glob("*.cpp")), "-O1")
    objects = f"{ninja.compile(core_sources())} {tests}"
    target = folder / "core_tests"
    ninja.link(target, objects, "-pthread -ldl")
    ninja.run()
    return target


def inplace_target() -> Path:
    return ROOT / "torch_spyre" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=["extension", "core-tests", "core-tests-asan"])
    target = parser.parse_args().target
    native = ROOT / "build" / "native"
    if target == "extension":
        build_extension(inplace_target(), native)
        return
    sanitize = target.endswith("asan")
    program = build_core_tests(ROOT / "build" / target if sanitize else native, sanitize)
    subprocess.run([str(program)], check=True)


if __name__ == "__main__":
    main()
