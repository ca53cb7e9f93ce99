"""Runs a kernel that TORCH_SPYRE_DUMP has written, on the arrays that it recorded."""

import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from torch_spyre import _C, knobs
from torch_spyre._C import DataFormats
from torch_spyre._inductor.kernel_parameters import KernelParameter
from torch_spyre._inductor.runtime.kernel_record import (
    KernelRecord,
    LaunchRecord,
    MemoryRecord,
    StageRecord,
)
from torch_spyre._inductor.runtime.recording import file_dtype
from torch_spyre._inductor.runtime.runner import ScratchBuffers, bind_program
from torch_spyre._inductor.verification.value_formats import codes_of, value_format
from torch_spyre._inductor.verification.value_formats import decode as decode_codes
from torch_spyre.backend.kernels import compile_kernel, function_named
from torch_spyre.cards import load_card
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import InputError, SpyreError
from torch_spyre.ktir.module import Module
from torch_spyre.ktir.module import load as load_module

KTIR = "ktir.mlir"


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
    kernel, launch = KernelRecord.load(folder), _load_launch(folder)
    _check_configuration(folder, kernel)
    memories = [_to_card(folder, memory) for memory in launch.memories]
    # No program accesses an argument that is not recorded.
    tensors = [torch.empty(0, dtype=torch.int8, device=DEVICE_NAME)] * kernel.arguments
    for argument in launch.arguments:
        tensors[argument.index] = memories[argument.memory]
    _load_kernel(kernel, load_module(folder / KTIR)).run(*tensors)
    return [
        _compare(folder, launch, position, _C._device_bytes(memories[position]))
        for position, memory in enumerate(launch.memories)
        if memory.output is not None
    ]


def load_values(folder: Path, file: str) -> np.ndarray:
    """Return the values in a file of a dump, such as `outputs/1_buf2.npy`, in device order."""
    launch = LaunchRecord.load(folder)
    for memory in launch.memories:
        if file in (memory.input, memory.output):
            return decode(_read(folder / file, memory), memory.format)
    raise InputError(str(folder / file), "no file of this dump")


def decode(codes: np.ndarray, format: str) -> np.ndarray:
    """Return the values of elements in a file of a dump, from the name of their data format."""
    value_type = value_format(DataFormats.__members__[format])
    flat = torch.from_numpy(np.ascontiguousarray(codes).view(np.uint8).reshape(-1))
    return decode_codes(codes_of(flat, value_type), value_type).numpy().reshape(codes.shape)


def _load_launch(folder: Path) -> LaunchRecord:
    try:
        launch = LaunchRecord.load(folder)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(str(folder), "the kernel was compiled and never launched") from error
        raise
    if launch.left_out:
        raise InputError(
            str(folder),
            f"the arrays of the launch were not recorded: {launch.left_out}. Dump the kernel again "
            f"with another value, or run `spyre ktir run --random {folder / KTIR}`",
        )
    return launch


def _check_configuration(folder: Path, kernel: KernelRecord) -> None:
    """Raise InputError unless this process computes as the one that dumped the kernel."""
    if knobs.emulator.fp16 != kernel.fp16:
        raise InputError(str(folder), f"recorded with SPYRE_EMU_FP16={kernel.fp16}; set the same")
    if load_card().digest != kernel.card_digest:
        raise InputError(str(folder), f"compiled for another card ({kernel.card}); set SPYRE_CARD")


def _to_card(folder: Path, memory: MemoryRecord) -> torch.Tensor:
    """Return device memory with the recorded content."""
    content = _read(folder / memory.input, memory)
    tensor = torch.empty(memory.bytes, dtype=torch.int8, device=DEVICE_NAME)
    _C._set_device_bytes(tensor, _bytes_of(content))
    return tensor


def _read(path: Path, memory: MemoryRecord) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from error
    dtype = file_dtype(memory.format)
    if array.dtype != dtype or array.nbytes != memory.bytes:
        raise InputError(
            str(path),
            f"it has {array.nbytes} bytes of {array.dtype}, not {memory.bytes} of {dtype}",
        )
    return array


def _bytes_of(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _load_kernel(kernel: KernelRecord, module: Module) -> _C.Bundle:
    """Return the stages of a kernel, from the functions of a module."""
    scratch = ScratchBuffers()
    stages = [_load_stage(stage, module, scratch) for stage in kernel.stages]
    return _C.Bundle(kernel.kernel, stages, scratch.sizes, kernel.arguments)


def _load_stage(stage: StageRecord, module: Module, scratch: ScratchBuffers) -> _C.BundleStage:
    # By position: names of values change when a kernel is printed.
    names = [argument.name for argument in function_named(module, stage.function).arguments]
    if len(names) != len(stage.arrays):
        raise InputError(
            stage.function,
            f"it has {len(names)} arguments, and {len(stage.arrays)} arrays were recorded for it",
        )
    program = compile_kernel(module, stage.function, {}, frozenset(names))
    parameters = [
        KernelParameter(array.parameter, array.bytes, array.argument) for array in stage.arrays
    ]
    return bind_program(program, parameters, stage.ops, scratch)


def _compare(
    folder: Path, launch: LaunchRecord, position: int, after: torch.Tensor
) -> OutputComparison:
    memory = launch.memories[position]
    assert memory.output is not None
    recorded = _read(folder / memory.output, memory)
    dtype = file_dtype(memory.format)
    actual = after.numpy()[: memory.bytes].view(dtype).reshape(recorded.shape)
    if memory.written is not None:
        mask = np.load(folder / memory.written, allow_pickle=False)
        actual, recorded = actual[mask], recorded[mask]
    # As integers: NaN equals NaN, and -0.0 differs from 0.0.
    integers = np.dtype(f"u{dtype.itemsize}")
    argument = next(
        argument for argument in reversed(launch.arguments) if argument.memory == position
    )
    return OutputComparison(
        argument.name,
        tuple(argument.shape),
        argument.dtype,
        zlib.crc32(actual.tobytes()),
        zlib.crc32(recorded.tobytes()),
        int((actual.view(integers) != recorded.view(integers)).sum()),
        _largest_error(decode(actual, memory.format), decode(recorded, memory.format)),
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
