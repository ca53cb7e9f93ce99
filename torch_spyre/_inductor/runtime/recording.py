"""Records the arrays of a kernel's first launch in the folder of its dump."""

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
import torch

from torch_spyre import _C, knobs
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.runtime.kernel_record import ArgumentRecord, LaunchRecord, MemoryRecord
from torch_spyre._inductor.runtime.written_elements import written_elements
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.logging_config import get_logger

logger = get_logger(__name__)

Run = Callable[..., None]
Stages = Sequence[Sequence[OpSpec]]

# The NumPy dtypes of the files: codes of floats that NumPy lacks, values of others.
_FILE_DTYPES = {
    "SEN169_FP16": "uint16",
    "IEEE_FP32": "float32",
    "SEN143_FP8": "uint8",
    "SEN152_FP8": "uint8",
    "SENINT8": "int8",
    "SENINT16": "int16",
    "IEEE_INT32": "int32",
    "SENUINT32": "int32",
}


def file_dtype(format: str) -> np.dtype[np.generic]:
    """Return the dtype of a file that holds elements in a data format."""
    return np.dtype(_FILE_DTYPES.get(format, "uint8"))


class RecordedKernel:
    """Runs a kernel. The first launch waits for the card, and is recorded."""

    def __init__(self, folder: Path, stages: Stages, run: Run) -> None:
        self.folder, self.stages, self.run = folder, stages, run
        self.is_recorded = False
        self._lock = threading.Lock()

    def __call__(self, *tensors: torch.Tensor) -> None:
        if self.is_recorded:
            self.run(*tensors)
            return
        with self._lock:
            if not self.is_recorded:
                self.is_recorded = True
                self._record(tensors)
                return
        self.run(*tensors)

    def _record(self, tensors: Sequence[torch.Tensor]) -> None:
        try:
            recording = _Recording(self.folder, self.stages, tensors)
        except OSError as error:
            logger.warning("the launch of %s is not recorded: %s", self.folder.name, error)
            self.run(*tensors)
            return
        try:
            self.run(*tensors)
        finally:
            # Also if the kernel fails: the dump then shows what it has written.
            recording.finish()


class _Recording:
    """One launch: what its arguments are in, before and after it."""

    def __init__(self, folder: Path, stages: Stages, tensors: Sequence[torch.Tensor]) -> None:
        self.folder, self.stages = folder, stages
        args = _largest_args(stages)
        self.tensors: list[torch.Tensor] = []
        self.args: list[TensorArg] = []
        self.arguments: list[ArgumentRecord] = []
        self.memory_of_argument: dict[int, int] = {}
        by_storage: dict[int, int] = {}
        for index, tensor in enumerate(tensors):
            arg = args.get(index)
            if arg is None:
                continue
            storage = tensor.untyped_storage()._cdata
            memory = by_storage.setdefault(storage, len(self.tensors))
            if memory == len(self.tensors):
                self.tensors.append(tensor)
                self.args.append(arg)
            elif _num_bytes(arg) > _num_bytes(self.args[memory]):
                self.args[memory] = arg
            self.memory_of_argument[index] = memory
            self.arguments.append(
                ArgumentRecord(
                    index,
                    arg.name or f"arg{index}",
                    list(tensor.shape),
                    list(tensor.stride()),
                    int(tensor.storage_offset()),
                    str(tensor.dtype).removeprefix("torch."),
                    memory,
                )
            )
        self.left_out = self._reason_to_leave_out()
        self.before = [] if self.left_out else self._contents()
        self.files = _file_names(self.args)
        if not self.left_out:
            self._save("inputs", range(len(self.args)), self.before)

    def _reason_to_leave_out(self) -> str | None:
        if knobs.emulator.mode == "timing":
            return "with SPYRE_EMU_MODE=timing kernels compute nothing"
        limit = knobs.logging.dump_megabytes
        total = sum(_num_bytes(arg) for arg in self.args)
        if total > limit << 20:
            megabytes = -(-total >> 20)
            return f"the arrays have {megabytes} MiB, and TORCH_SPYRE_DUMP_MB={limit}"
        return None

    def _contents(self) -> list[torch.Tensor]:
        return [
            _C._device_bytes(tensor)[: _num_bytes(arg)]
            for tensor, arg in zip(self.tensors, self.args, strict=True)
        ]

    def finish(self) -> None:
        """Record the arrays that the kernel writes, after the launch."""
        masks: Mapping[int, torch.Tensor | None] = {}
        if not self.left_out:
            masks = written_elements(self.stages, self.memory_of_argument, self.before)
            self._save("outputs", masks, self._contents())
        memories = []
        for memory, arg in enumerate(self.args):
            mask = masks.get(memory)
            written = None
            if mask is not None and not bool(mask.all()):
                written = f"outputs/{self.files[memory]}_written.npy"
                np.save(self.folder / written, mask.view(list(arg.device_size)).numpy())
            name = f"{self.files[memory]}.npy"
            memories.append(
                MemoryRecord(
                    _num_bytes(arg),
                    arg.device_dtype.name,
                    list(arg.device_size),
                    "" if self.left_out else f"inputs/{name}",
                    f"outputs/{name}" if memory in masks else None,
                    written,
                )
            )
        LaunchRecord(self.arguments, memories, self.left_out).save(self.folder)

    def _save(
        self, folder: str, memories: "Mapping[int, object] | range", contents: list[torch.Tensor]
    ) -> None:
        (self.folder / folder).mkdir(exist_ok=True)
        for memory in memories:
            arg, bytes = self.args[memory], contents[memory].numpy()
            array = bytes.view(file_dtype(arg.device_dtype.name)).reshape(list(arg.device_size))
            np.save(self.folder / folder / f"{self.files[memory]}.npy", array)


def _largest_args(stages: Stages) -> dict[int, TensorArg]:
    """Return the tensor of each argument that needs most memory."""
    largest: dict[int, TensorArg] = {}
    for arg in (arg for specs in stages for spec in specs for arg in spec.args):
        if arg.arg_index < 0:
            continue
        known = largest.get(arg.arg_index)
        if known is None or _num_bytes(arg) > _num_bytes(known):
            largest[arg.arg_index] = arg
    return largest


def _num_bytes(arg: TensorArg) -> int:
    return prod(arg.device_size[:-1]) * BYTES_IN_STICK


def _file_names(args: Sequence[TensorArg]) -> list[str]:
    return [f"{arg.arg_index}_{arg.name or 'argument'}" for arg in args]
