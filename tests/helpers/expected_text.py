"""The texts of representative kernels: `python tests/helpers/expected_text.py` accepts them anew.

They are made for four cores, which are enough to see how work is divided.
"""

import os
import tempfile
from pathlib import Path

import torch
from kernel_samples import SAMPLES

FOLDER = Path(__file__).parents[1] / "inductor" / "expected"
CORES = "4"
# Not how many cycles a program takes, nor its listing: these are the back end's.
FILES = ("loop_ir.txt", "opspec.txt", "ktir.mlir", "bundle.mlir")
# Whose files of SuperDSC are looked at too. They are long.
IN_SUPERDSC = ("add", "sum_rows", "matmul_epilogue", "gather", "transpose")


def texts_of(name: str, folder: Path, set_variable) -> dict[str, str]:
    """What the compiler dumps for a sample, by the name of the file."""
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
    return {path.name: path.read_text() for path in sorted(files)}


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
