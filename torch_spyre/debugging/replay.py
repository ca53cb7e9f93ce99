"""Runs a kernel that TORCH_SPYRE_DUMP has written, on the arrays that it recorded."""

import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from torch_spyre._inductor.runtime.recording import file_dtype
from torch_spyre.debugging.dumped_kernel import DumpedKernel, decode_file
from torch_spyre.errors import InputError, SpyreError


@dataclass(frozen=True)
class OutputComparison:
    """An output of a replay beside the recorded one. Elements are compared where ops write them."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    checksum: int
    recorded_checksum: int
    num_different: int
    # The largest difference of two values; infinite if one of them alone is NaN.
    largest_error: float

    @property
    def is_equal(self) -> bool:
        return self.num_different == 0

    def __str__(self) -> str:
        verdict = "equal" if self.is_equal else f"{self.num_different} elements differ"
        return (
            f"{self.name}: {self.dtype}{list(self.shape)}, checksum {self.checksum:08x} "
            f"(recorded {self.recorded_checksum:08x}), largest error {self.largest_error:.6g}: "
            f"{verdict}"
        )


def main(folder: Path) -> int:
    """Replay the kernel in a folder, print its outputs, and return the exit code."""
    try:
        comparisons = replay(folder)
    except SpyreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for comparison in comparisons:
        print(comparison)
    return 0 if all(comparison.is_equal for comparison in comparisons) else 1


def replay(folder: Path) -> list[OutputComparison]:
    """Compile the KTIR in a dumped kernel's folder, run it, and compare it with the recording.

    Raise InputError if nothing was recorded, or if the card is configured otherwise.
    """
    dumped = DumpedKernel.load(folder)
    contents = dumped.run_on_card()
    return [
        _compare(dumped, position, contents[position])
        for position, memory in enumerate(dumped.launch.memories)
        if memory.output is not None
    ]


def load_values(folder: Path, file: str) -> np.ndarray:
    """Return the values in a file of a dump, such as `outputs/1_buf2.npy`, in device order."""
    dumped = DumpedKernel.load(folder)
    for memory in dumped.launch.memories:
        if file in (memory.input, memory.output):
            return decode_file(dumped.read(file, memory), memory.format)
    raise InputError(str(folder / file), "no file of this dump")


def _compare(dumped: DumpedKernel, position: int, after: torch.Tensor) -> OutputComparison:
    memory = dumped.launch.memories[position]
    assert memory.output is not None
    recorded = dumped.read(memory.output, memory)
    dtype = file_dtype(memory.format)
    actual = after.numpy()[: memory.bytes].view(dtype).reshape(recorded.shape)
    if memory.written is not None:
        mask = np.load(dumped.folder / memory.written, allow_pickle=False)
        actual, recorded = actual[mask], recorded[mask]
    # As integers: NaN equals NaN, and -0.0 differs from 0.0.
    integers = np.dtype(f"u{dtype.itemsize}")
    argument = next(
        argument for argument in reversed(dumped.launch.arguments) if argument.memory == position
    )
    return OutputComparison(
        argument.name,
        tuple(argument.shape),
        argument.dtype,
        zlib.crc32(actual.tobytes()),
        zlib.crc32(recorded.tobytes()),
        int((actual.view(integers) != recorded.view(integers)).sum()),
        _largest_error(decode_file(actual, memory.format), decode_file(recorded, memory.format)),
    )


def _largest_error(actual: np.ndarray, recorded: np.ndarray) -> float:
    if not actual.size:
        return 0.0
    if actual.dtype.kind == "f":
        is_same = (actual == recorded) | (np.isnan(actual) & np.isnan(recorded))
        with np.errstate(invalid="ignore"):
            error = np.where(is_same, 0.0, np.abs(actual - recorded))
        return float(np.where(np.isnan(error), np.inf, error).max())
    return float(np.abs(actual - recorded).max())
