"""Expected texts of representative kernels; `python tests/helpers/expected_text.py` rewrites them.

The kernels are compiled for four cores, which are enough to show the work division.
"""

import os
import re
import tempfile
from pathlib import Path

import torch
from kernel_samples import SAMPLES

FOLDER = Path(__file__).parents[1] / "inductor" / "expected"
CORES = "4"
# Without cycle counts and program listings, which belong to the back end.
FILES = ("loop_ir.txt", "opspec.txt", "ktir.mlir", "bundle.mlir")
# The lines of the samples, which move: in OpSpecs, as comments in loops, and in KTIR.
ORIGIN = re.compile(
    r", origin=Origin\([^\n]*?\)(?=\)\n)|  # (?!program )[^\n]*|^#loc.*\n| loc\(#loc\d*\)",
    re.MULTILINE,
)
# The samples whose SuperDSC files are compared too. These files are long.
IN_SUPERDSC = ("add", "sum_rows", "matmul_epilogue", "gather", "transpose")


def texts_of(name: str, folder: Path, set_variable) -> dict[str, str]:
    """Return the texts that the compiler dumps for a sample, by file name."""
    sample = SAMPLES[name]
    set_variable("SENCORES", CORES)
    set_variable("TORCH_SPYRE_DUMP", str(folder))
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(sample.call)(*sample.on_card())
    (kernel,) = folder.iterdir()
    files = [path for path in kernel.iterdir() if path.name in FILES]
    if name in IN_SUPERDSC:
        files += kernel.glob("sdsc_*.json")
    return {path.name: ORIGIN.sub("", path.read_text()) for path in sorted(files)}


def expected(name: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((FOLDER / name).iterdir())}


def main() -> None:
    for name in SAMPLES:
        target = FOLDER / name
        target.mkdir(parents=True, exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        with tempfile.TemporaryDirectory() as folder:
            for file, text in texts_of(name, Path(folder), os.environ.__setitem__).items():
                (target / file).write_text(text)


if __name__ == "__main__":
    main()
