"""The kernels of this process that can be launched, by the number that their launches have."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from torch_spyre.backend.program.program import Program

_numbers = itertools.count(1)
_kernels: "WeakValueDictionary[int, LoadedKernel]" = WeakValueDictionary()
# By the bundle that launches them.
_kept: "WeakKeyDictionary[object, tuple[LoadedKernel, ...]]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """A program and the arguments that its work depends on; it is known while its owner keeps it.

    Only the file of the program is kept: its content is decoded when it is needed.
    """

    name: str
    program_file: bytes
    array_bytes: tuple[int, ...]
    scalars: tuple[int, ...]
    ops: tuple[str, ...]
    # Equal for arrays in the same memory; empty if none are.
    memories: tuple[int, ...] = ()
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def program(self) -> Program:
        """Return a new program: what it caches is not kept."""
        return Program(self.program_file)


def add_kernel(
    program: Program,
    array_bytes: Sequence[int],
    scalars: Sequence[int],
    ops: Sequence[str],
    memories: Sequence[int] = (),
) -> LoadedKernel:
    """Return a new kernel, which is known as long as the caller keeps it."""
    sizes, values = tuple(array_bytes), tuple(scalars)
    kernel = LoadedKernel(program.name, program.file, sizes, values, tuple(ops), tuple(memories))
    _kernels[kernel.number] = kernel
    return kernel


def keep_kernels(owner: object, kernels: Sequence[LoadedKernel]) -> None:
    """Keep kernels as long as their owner exists."""
    _kept[owner] = tuple(kernels)


def kernel_numbered(number: int) -> LoadedKernel | None:
    """Return a kernel by its number; None if nothing keeps it any more."""
    return _kernels.get(number)


def loaded_kernels() -> list[LoadedKernel]:
    """Return all kernels, oldest first."""
    return sorted(_kernels.values(), key=lambda kernel: kernel.number)
