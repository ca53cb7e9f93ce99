"""Derives how an op accesses its tensors from their device coordinates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.superdsc.coordinates import (
    contiguous_strides,
    direct_symbols,
    evaluate,
    index_names,
    is_coordinate,
)
from torch_spyre.errors import InvalidOpSpecError


@dataclass(frozen=True)
class Access:
    """How an op accesses one tensor: its stick symbol, and all its symbols, innermost first."""

    arg: TensorArg
    stick: sympy.Symbol | None
    order: tuple[sympy.Symbol, ...]
    # Names of the index tensors in its coordinates, and the symbol of the dim that they index.
    indices: tuple[str, ...]
    indirect: sympy.Symbol | None
    is_index: bool

    @property
    def stick_size(self) -> int:
        return self.arg.device_size[-1]

    def device_dim(self, symbol: sympy.Symbol) -> int | None:
        """Return the device dim that the symbol indexes, or that counts the symbol's sticks."""
        outer = list(enumerate(self.outer))
        if symbol == self.indirect:
            dims = [dim for dim, coordinate in outer if index_names(coordinate)]
        else:
            dims = [dim for dim, coordinate in outer if symbol in direct_symbols(coordinate)]
        if not dims and symbol == self.stick:
            # All elements are in one stick: the dim that counts sticks has a constant coordinate.
            dims = [dim for dim, coordinate in outer if not coordinate.free_symbols]
        return dims[-1] if dims else None

    @property
    def outer(self) -> Sequence[sympy.Expr]:
        """The coordinates of all device dims but the one within a stick."""
        return self.arg.device_coordinates[:-1]

    def step(self, symbol: sympy.Symbol) -> int | None:
        """Return the stride of the symbol in elements; for the stick symbol, that of sticks."""
        dim = self.device_dim(symbol)
        if dim is None:
            return None
        stride = contiguous_strides(self.arg.device_size)[dim]
        coordinate = self.arg.device_coordinates[dim]
        if symbol in (self.stick, self.indirect) or symbol not in direct_symbols(coordinate):
            return stride
        origin = {origin_symbol: 0 for origin_symbol in direct_symbols(coordinate)}
        difference = evaluate(coordinate, {**origin, symbol: 1}) - evaluate(coordinate, origin)
        return int(difference * stride)

    def extent(self, symbol: sympy.Symbol) -> int:
        """Return how many indices of the symbol fit within one step of the next outer symbol."""
        dim, step = self.device_dim(symbol), self.step(symbol)
        if dim is None or not step:
            return self.stick_size if symbol == self.stick else 1
        outer_symbols = self.order[self.order.index(symbol) + 1 :]
        outer_steps = [self.step(outer_symbol) for outer_symbol in outer_symbols]
        larger_steps = [size for size in outer_steps if size is not None and size >= step]
        span = larger_steps[0] if larger_steps else math.prod(self.arg.device_size)
        unit = self.stick_size if symbol == self.stick else 1
        return span // step * unit


def tensor_accesses(spec: OpSpec) -> list[Access]:
    """Return the access of each tensor; raise `InvalidOpSpecError` for unsupported coordinates."""
    for position, arg in enumerate(spec.args):
        for coordinate in arg.device_coordinates:
            if not is_coordinate(coordinate):
                raise InvalidOpSpecError(
                    f"OpSpec {spec.op}",
                    f"tensor {position} has the coordinate {coordinate}; "
                    "coordinates are integer expressions of sums, products, floor, ceiling, Mod "
                    "and IndirectAccess",
                )
    named = {arg.name: arg for arg in spec.args if arg.name is not None}
    used_names = {
        name
        for arg in spec.args
        for coordinate in arg.device_coordinates
        for name in index_names(coordinate)
    }
    for name in sorted(used_names - set(named)):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}",
            f"a coordinate reads the index tensor {name}, which is not among its tensors",
        )
    return [_access(arg, named, is_index=arg.name in used_names) for arg in spec.args]


def _access(arg: TensorArg, named: Mapping[str, TensorArg], is_index: bool) -> Access:
    lanes = direct_symbols(arg.device_coordinates[-1])
    stick = lanes[0] if lanes else None
    order: list[sympy.Symbol] = []
    indices: list[str] = []
    indirect = None
    # A tensor with one stick along the symbol has a constant where sticks would be counted.
    has_single_stick = stick is not None and all(
        stick not in direct_symbols(coordinate) for coordinate in arg.device_coordinates[:-1]
    )
    for coordinate in reversed(arg.device_coordinates[:-1]):
        symbols = _symbols_by_step(coordinate)
        for name in index_names(coordinate):
            indices.append(name)
            index_symbols = _symbols(named[name])
            if len(indices) == 1 and len(index_symbols) == 1 and index_symbols[0] not in order:
                indirect = index_symbols[0]
            symbols = [*symbols, *index_symbols]
        if not coordinate.free_symbols and has_single_stick:
            symbols = [stick]
        order += [symbol for symbol in symbols if symbol not in order]
    order += [symbol for symbol in lanes if symbol not in order]
    indices += index_names(arg.device_coordinates[-1])
    return Access(arg, stick, tuple(order), tuple(indices), indirect, is_index)


def _symbols_by_step(coordinate: sympy.Expr) -> list[sympy.Symbol]:
    """Return the symbols of a coordinate, sorted by the size of their coefficients."""
    symbols = direct_symbols(coordinate)
    if len(symbols) < 2:
        return symbols
    coefficients = {symbol: abs(coordinate.coeff(symbol)) for symbol in symbols}
    return sorted(symbols, key=lambda symbol: (coefficients[symbol], str(symbol)))


def _symbols(arg: TensorArg) -> list[sympy.Symbol]:
    """Return the symbols that the tensor is indexed by, innermost first."""
    symbols: list[sympy.Symbol] = []
    for coordinate in reversed(arg.device_coordinates):
        symbols += [symbol for symbol in direct_symbols(coordinate) if symbol not in symbols]
    return symbols
