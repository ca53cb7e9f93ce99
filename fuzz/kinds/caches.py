"""Damaged caches: whatever is in the folder of programs, a kernel is compiled as without it."""

import functools
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzz.kind import Content, Kind, Violation
from torch_spyre import knobs, ktir
from torch_spyre.backend.program.program import Program

TEXT = """
func.func @f(%p: index) {{
  %v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] : memref<64xf16>
  %c0 = arith.constant 0 : index
  %t = ktdp.construct_access_tile %v[%c0]
    {{access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>}} : memref<64xf16> -> <64xindex>
  %x = ktdp.load %t : <64xindex> -> tensor<64xf16>
  %y = {op} %x, %x : tensor<64xf16>
  ktdp.store %y, %t : tensor<64xf16>, <64xindex>
  return
}}
"""
OPS = ("arith.addf", "arith.mulf", "arith.subf")


def flipped(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def spliced(raw: bytes, chance: random.Random) -> bytes:
    start, end = sorted((chance.randrange(len(raw)), chance.randrange(len(raw))))
    return raw[:start] + chance.randbytes(chance.randrange(40)) + raw[end:]


CONTENTS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "empty": lambda raw, chance: b"",
    "truncated": lambda raw, chance: raw[: chance.randrange(len(raw))],
    "flipped": flipped,
    "spliced": spliced,
    "longer": lambda raw, chance: raw + chance.randbytes(chance.choice((1, 8, 5000))),
    "repeated": lambda raw, chance: raw * chance.randint(2, 4),
    "random": lambda raw, chance: chance.randbytes(chance.choice((1, 40, 500))),
    "zeros": lambda raw, chance: bytes(len(raw)),
}
PLACES = ("swapped", "folder", "missing", "link", "loop", "pipe", "parent", "unreadable", "whole")


@functools.cache
def programs() -> list[Program]:
    """Return the programs of the kernels, compiled without a cache."""
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=""):
        return [compiled(op) for op in OPS]


def compiled(op: str) -> Program:
    """Compile a kernel in a new module, as another process would."""
    parsed = module_of(op)
    return ktir.Module(parsed.operation, parsed.source).compile("f")


@functools.cache
def module_of(op: str) -> ktir.Module:
    return ktir.load(TEXT.format(op=op))


@functools.cache
def filled_cache() -> Path:
    """Return a folder with the programs of all kernels."""
    folder = Path(tempfile.mkdtemp(dir="."), "cache").resolve()
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(folder)):
        for op in OPS:
            compiled(op)
    return folder


class CacheKind(Kind):
    """Damages of the folder of compiled programs: a compilation more, never another result."""

    name = "caches"

    def prepare(self) -> None:
        programs(), filled_cache()

    def generate(self, chance: random.Random) -> Content:
        damages = chance.choices([*CONTENTS, *PLACES], k=chance.choice((1, 1, 2)))
        return {"seed": chance.randrange(1 << 30), "damages": damages}

    def run(self, content: Content) -> None:
        chance = random.Random(content["seed"])
        folder = Path(tempfile.mkdtemp(dir=".")).resolve()
        cache = folder / "cache"
        shutil.copytree(filled_cache(), cache)
        try:
            for name in content["damages"]:
                damage(cache, name, chance)
            with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(cache)):
                for _ in range(2):  # what was rewritten is read again
                    check_programs()
        finally:
            make_writable(folder)
            shutil.rmtree(folder, ignore_errors=True)


def check_programs() -> None:
    for op, expected in zip(OPS, programs(), strict=True):
        if compiled(op) != expected:
            raise Violation("another program than without a cache", op)


def damage(cache: Path, name: str, chance: random.Random) -> None:
    """Damage a file of a cache, or its place."""
    files = (
        sorted(path for path in cache.rglob("*.prg") if path.is_file()) if cache.is_dir() else []
    )
    if not files:
        return
    path = chance.choice(files)
    if name in CONTENTS:
        raw = path.read_bytes()
        path.write_bytes(CONTENTS[name](raw, chance) if raw else b"?")
        return
    match name:
        case "swapped":
            path.write_bytes(chance.choice(files).read_bytes())
        case "folder":
            path.unlink()
            (path / "inner").mkdir(parents=True)
        case "missing":
            path.unlink()
        case "link":
            path.unlink()
            path.symlink_to("/dev/zero" if chance.random() < 0.5 else "/nonexistent")
        case "loop":
            path.unlink()
            path.symlink_to(path.name)
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "parent":
            shutil.rmtree(path.parent)
            path.parent.write_bytes(b"not a folder")
        case "unreadable":
            chance.choice((path, path.parent, cache)).chmod(0)
        case _:
            shutil.rmtree(cache)
            cache.write_bytes(b"not a folder")


def make_writable(folder: Path) -> None:
    """Give back the permissions that a damage took, so that the folder can be removed."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            Path(parent, name).chmod(stat.S_IRWXU)
