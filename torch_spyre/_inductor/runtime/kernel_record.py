"""The records of a dumped kernel from which its launch can be repeated, and their JSON files.

`kernel.json` describes the kernel: its functions in `ktir.mlir` and what their arrays are bound to.
`launch.json` describes its first launch: the arguments and the memory that they are in. The content
of each memory before the launch is a NumPy file in `inputs/`; where the kernel writes it, the
content after the launch is one in `outputs/`. The files hold the elements in the order of device
memory, with the device size as their shape. Elements of 16-bit floats and float8 are codes, as
unsigned integers; `replay.decode` returns their values.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch_spyre.errors import InputError

KERNEL, LAUNCH = "kernel.json", "launch.json"

Record = TypeVar("Record")


@dataclass(frozen=True)
class ArrayRecord:
    """An array of a function: an argument of the kernel, or else a buffer between its stages."""

    parameter: str
    bytes: int
    argument: int | None


@dataclass(frozen=True)
class StageRecord:
    """A function of `ktir.mlir`, the ops that it computes, and its arrays in order."""

    function: str
    ops: Sequence[str]
    arrays: Sequence[ArrayRecord]


@dataclass(frozen=True)
class KernelRecord:
    """A kernel as it was compiled."""

    kernel: str
    # The ops of the user's program, where they are known.
    user_ops: Sequence[str]
    card: str
    card_digest: str
    # The 16-bit format in which the card computes: sen169 or ieee.
    fp16: str
    arguments: int
    stages: Sequence[StageRecord]

    def save(self, folder: Path) -> None:
        _save(folder / KERNEL, self)

    @staticmethod
    def load(folder: Path) -> "KernelRecord":
        """Read the record of a dumped kernel; raise InputError if there is none."""

        def read(values: Mapping[str, Any]) -> KernelRecord:
            stages = [
                StageRecord(
                    stage["function"],
                    stage["ops"],
                    [ArrayRecord(**array) for array in stage["arrays"]],
                )
                for stage in values["stages"]
            ]
            return KernelRecord(**{**values, "stages": stages})

        return _load(folder / KERNEL, read)


@dataclass(frozen=True)
class ArgumentRecord:
    """A tensor of the first launch. `memory` is its position in the list of memories."""

    index: int
    name: str
    shape: Sequence[int]
    stride: Sequence[int]
    storage_offset: int
    dtype: str
    memory: int


@dataclass(frozen=True)
class MemoryRecord:
    """Device memory that arguments of the first launch are in, and the files with its content."""

    bytes: int
    # The data format of the elements, and their shape in device order.
    format: str
    device_size: Sequence[int]
    input: str
    # None if no op writes it.
    output: str | None = None
    # A file of bools: the elements that ops write, where they do not write all.
    written: str | None = None


@dataclass(frozen=True)
class LaunchRecord:
    """The first launch of a kernel. `left_out` says why there are no contents, if so."""

    arguments: Sequence[ArgumentRecord]
    memories: Sequence[MemoryRecord]
    left_out: str | None = None

    def save(self, folder: Path) -> None:
        _save(folder / LAUNCH, self)

    @staticmethod
    def load(folder: Path) -> "LaunchRecord":
        """Read the record of a launch; raise InputError if the kernel was not launched."""

        def read(values: Mapping[str, Any]) -> LaunchRecord:
            return LaunchRecord(
                [ArgumentRecord(**argument) for argument in values["arguments"]],
                [MemoryRecord(**memory) for memory in values["memories"]],
                values["left_out"],
            )

        return _load(folder / LAUNCH, read)


def _save(path: Path, record: Any) -> None:
    path.write_text(json.dumps(asdict(record), indent=2) + "\n")


def _load(path: Path, read: Callable[[Mapping[str, Any]], Record]) -> Record:
    try:
        return read(json.loads(path.read_text()))
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(str(path), f"not a record of this version: {error!r}") from error
