"""Assigns names to pool tensors, which a bundle identifies by address."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import sympy

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.superdsc.coordinates import bounds, integer_symbol
from torch_spyre._inductor.superdsc.segments import num_bytes
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import BundleError

# The name that the reader gives to an index tensor without a name.
_DEFAULT_NAME = re.compile(r"Tensor\d+")


def with_pool_names(specs: Sequence[OpSpec], file: str) -> list[OpSpec]:
    """Return the specs with one name for each pool tensor in all ops that access it.

    Tensors without names are linked by address: an op reads the tensor that was last written there,
    or a slice of it.
    """
    pool = _Pool(file)
    return [pool.named(position, spec) for position, spec in enumerate(specs)]


@dataclass(frozen=True)
class _Contents:
    """A tensor that was written to bytes `start` to `end` of the pool."""

    start: int
    end: int
    name: str
    # Whether only a slice of it has been written, which no op has read yet.
    is_incomplete: bool = False


class _Pool:
    def __init__(self, file: str) -> None:
        self.file = file
        self.contents: list[_Contents] = []

    def named(self, position: int, spec: OpSpec) -> OpSpec:
        """Return an op with the names of its pool tensors, and record its output."""
        args = []
        renamed: dict[sympy.Symbol, sympy.Symbol] = {}
        for arg in spec.args:
            if "pool" in arg.allocation:
                is_unnamed_index = bool(_DEFAULT_NAME.fullmatch(arg.name or ""))
                linked = self._linked(
                    position, spec, replace(arg, name=None) if is_unnamed_index else arg
                )
                if is_unnamed_index:
                    renamed[integer_symbol(str(arg.name))] = integer_symbol(str(linked.name))
                arg = linked
            args.append(arg)
        if renamed:
            args = [_with_index_names(arg, renamed) for arg in args]
        return replace(spec, args=args)

    def _linked(self, position: int, spec: OpSpec, arg: TensorArg) -> TensorArg:
        arg = self._as_slice(spec, arg)
        start = arg.allocation["pool"]
        end = start + num_bytes(arg)
        overlapping = [old for old in self.contents if start < old.end and old.start < end]
        if arg.is_input:
            name = self._name_of_input(arg, position, start, end, overlapping)
            self.contents = [
                replace(old, is_incomplete=False) if old in overlapping else old
                for old in self.contents
            ]
            return replace(arg, name=name)
        # The op may write another slice of a tensor that is there already. If it writes everything,
        # the tensor is a new one, which other cores must not write while this one is being read.
        is_whole = _covers(spec, arg)
        same = [old for old in overlapping if (old.start, old.end) == (start, end) and not is_whole]
        for old in overlapping:
            if old.is_incomplete and (old.start, old.end) != (start, end):
                self._fail(position, f"writes bytes {start} to {end}", [old])
        name = arg.name or (same[0].name if same else f"at{start}_{position}")
        self.contents = [old for old in self.contents if old not in overlapping]
        self.contents.append(_Contents(start, end, name, not is_whole))
        return replace(arg, name=name)

    def _as_slice(self, spec: OpSpec, arg: TensorArg) -> TensorArg:
        """Return a tensor that starts within another one of the same size as a slice of it."""
        start = arg.allocation["pool"]
        whole = [
            old
            for old in self.contents
            if old.start < start < old.end and old.end - old.start == num_bytes(arg)
        ]
        if arg.name is not None or len(whole) != 1 or (start - whole[0].start) % BYTES_IN_STICK:
            return arg
        sticks = (start - whole[0].start) // BYTES_IN_STICK
        coordinates = [arg.device_coordinates[-1]]
        for size, coordinate in zip(
            reversed(arg.device_size[:-1]), reversed(arg.device_coordinates[:-1]), strict=True
        ):
            sticks, index = divmod(sticks, size)
            coordinates.insert(0, coordinate + index)
            if bounds(coordinates[0], spec.sizes, (0, size - 1 - index))[1] >= size:
                return arg
        return replace(arg, device_coordinates=coordinates, allocation={"pool": whole[0].start})

    def _name_of_input(
        self, arg: TensorArg, position: int, start: int, end: int, overlapping: list[_Contents]
    ) -> str:
        readable = [old.name for old in overlapping if old.start == start and end <= old.end]
        is_ambiguous = len(overlapping) > 1 or len(readable) < len(overlapping)
        if is_ambiguous or (arg.name and overlapping and arg.name not in readable):
            tensor = arg.name or "a tensor"
            self._fail(position, f"reads {tensor} from bytes {start} to {end}", overlapping)
        return arg.name or (readable[0] if readable else f"at{start}_{position}")

    def _fail(self, position: int, access: str, overlapping: Sequence[_Contents]) -> NoReturn:
        names = ", ".join(sorted(old.name for old in overlapping))
        problem = f"op {position} {access} of the pool, which hold {names}"
        raise BundleError(self.file, "", problem)


def _covers(spec: OpSpec, arg: TensorArg) -> bool:
    """Return whether the op writes all sticks of the tensor."""
    return all(
        bounds(coordinate, spec.sizes, (0, size - 1)) == (0, size - 1)
        for size, coordinate in zip(arg.device_size[:-1], arg.device_coordinates[:-1], strict=True)
    )


def _with_index_names(arg: TensorArg, renamed: dict[sympy.Symbol, sympy.Symbol]) -> TensorArg:
    coordinates = [coordinate.xreplace(renamed) for coordinate in arg.device_coordinates]
    return replace(arg, device_coordinates=coordinates)


def check_argument_addresses(specs: Sequence[OpSpec], file: str) -> None:
    """Check that all ops access an argument at the same start address."""
    addresses: dict[int, int] = {}
    for position, spec in enumerate(specs):
        for arg in spec.args:
            if "hbm" not in arg.allocation:
                continue
            start = arg.allocation["hbm"]
            expected = addresses.setdefault(arg.arg_index, start)
            if start != expected:
                raise BundleError(
                    file,
                    "",
                    f"op {position} has argument {arg.arg_index} at address {start}, but an "
                    f"earlier op has it at {expected}",
                )
