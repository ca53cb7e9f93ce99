"""The values that the ops of a stage pass to each other in the scratchpad."""

from dataclasses import dataclass
from math import prod

import torch
from sympy import Symbol

from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.value_formats import value_format


@dataclass(frozen=True)
class _Value:
    """A value over the iteration space of the op that wrote it."""

    arg: TensorArg
    grid: Grid
    bounds: Bounds


class Scratchpad:
    """Values by the names of their tensors.

    An op nearly always reads a value at the points where it was computed, so that its position in
    memory does not matter.
    """

    def __init__(self) -> None:
        self._values: dict[str, _Value] = {}

    def write(self, arg: TensorArg, grid: Grid, bounds: Bounds) -> None:
        self._values[_name(arg)] = _Value(arg, grid, bounds)

    def forget(self, arg: TensorArg, grid: Grid) -> None:
        """Make a value unknown."""
        is_float = value_format(arg.device_dtype).is_float
        self.write(arg, grid, Bounds.unknown(grid.unit_shape, is_float=is_float))

    def read(self, arg: TensorArg, grid: Grid) -> Bounds:
        """Return a value over the iteration space of the op that reads it."""
        value = self._values.get(_name(arg))
        if value is None:
            is_float = value_format(arg.device_dtype).is_float
            return Bounds.unknown(grid.unit_shape, is_float=is_float)
        if have_same_coordinates(value.arg, arg):
            return value.bounds.map(lambda side: _with_dims_of(grid, side, list(value.grid.dims)))
        memory = _in_memory(value)
        positions = grid.positions(arg.device_size, arg.device_coordinates)
        return memory.read(positions, value_format(arg.device_dtype))


def have_same_coordinates(left: TensorArg, right: TensorArg) -> bool:
    """Return whether two accesses to a tensor are to the same element at each point."""
    return (list(left.device_size), list(left.device_coordinates)) == (
        list(right.device_size),
        list(right.device_coordinates),
    )


def _name(arg: TensorArg) -> str:
    assert arg.name is not None
    return arg.name


def _with_dims_of(grid: Grid, values: torch.Tensor, symbols: list[Symbol]) -> torch.Tensor:
    """Return a tensor, whose dims are these symbols, with those of a grid."""
    for dim in reversed(range(len(symbols))):
        if symbols[dim] not in grid.dims:
            values = values.select(dim, 0)
    present = [symbol for symbol in symbols if symbol in grid.dims]
    order = [present.index(symbol) for symbol in grid.dims if symbol in present]
    values = values.permute(order)
    for dim, symbol in enumerate(grid.dims):
        if symbol not in present:
            values = values.unsqueeze(dim)
    return values


def _in_memory(value: _Value) -> Memory:
    """Return memory with a value, at the positions that the op that wrote it chose."""
    arg, format = value.arg, value_format(value.arg.device_dtype)
    memory = Memory(None, prod(arg.device_size) * format.bytes)
    positions = value.grid.positions(arg.device_size, arg.device_coordinates)
    shape = torch.broadcast_shapes(positions.shape, value.bounds.shape)
    memory.write(positions.expand(shape), value.bounds.expand(shape), format, stick=1)
    return memory
