"""How the tensors of an op run along its dims, from their device coordinates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc.coordinates import (
    direct_symbols,
    index_names,
    is_coordinate,
    strides_of,
    value,
)


@dataclass(frozen=True)
class Access:
    """One tensor: what its stick runs along, and its symbols from the innermost."""

    arg: TensorArg
    stick: sympy.Symbol | None
    order: tuple[sympy.Symbol, ...]
    # Index tensors that its coordinates name, and the symbol of the dim that they give.
    indices: tuple[str, ...]
    indirect: sympy.Symbol | None
    is_index: bool

    @property
    def stick_size(self) -> int:
        return self.arg.device_size[-1]

    def device_dim(self, symbol: sympy.Symbol) -> int | None:
        """The one that steps as the symbol does, or counts its sticks."""
        if symbol == self.indirect:
            found = [d for d, each in enumerate(self.outer) if index_names(each)]
        else:
            found = [d for d, each in enumerate(self.outer) if symbol in direct_symbols(each)]
        if not found and symbol == self.stick:
            # A stick that holds everything: its dim has the constant coordinate.
            found = [d for d, each in enumerate(self.outer) if not each.free_symbols]
        return found[-1] if found else None

    @property
    def outer(self) -> Sequence[sympy.Expr]:
        return self.arg.device_coordinates[:-1]

    def step(self, symbol: sympy.Symbol) -> int | None:
        """Elements from one index of the symbol to the next: for the stick, from stick to stick."""
        dim = self.device_dim(symbol)
        if dim is None:
            return None
        stride = strides_of(self.arg.device_size)[dim]
        coordinate = self.arg.device_coordinates[dim]
        if symbol in (self.stick, self.indirect) or symbol not in direct_symbols(coordinate):
            return stride
        at = {each: 0 for each in direct_symbols(coordinate)}
        return int((value(coordinate, {**at, symbol: 1}) - value(coordinate, at)) * stride)

    def extent(self, symbol: sympy.Symbol) -> int:
        """Of memory along the symbol, in indices: up to where the next symbol outside steps."""
        dim, step = self.device_dim(symbol), self.step(symbol)
        if dim is None or not step:
            return self.stick_size if symbol == self.stick else 1
        steps = [self.step(each) for each in self.order[self.order.index(symbol) + 1 :]]
        outside = [each for each in steps if each is not None and each >= step]
        reach = outside[0] if outside else math.prod(self.arg.device_size)
        unit = self.stick_size if symbol == self.stick else 1
        return reach // step * unit


def accesses_of(spec: OpSpec) -> list[Access]:
    for position, arg in enumerate(spec.args):
        for coordinate in arg.device_coordinates:
            if not is_coordinate(coordinate):
                raise InvalidOpSpecError(
                    f"OpSpec {spec.op}: tensor {position} has the coordinate {coordinate}, which "
                    "is not an integer made of sums, products, floor, Mod and index tensors"
                )
    named = {arg.name: arg for arg in spec.args if arg.name is not None}
    used = {
        name for arg in spec.args for each in arg.device_coordinates for name in index_names(each)
    }
    for name in sorted(used - set(named)):
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}: a coordinate reads the index tensor {name}, which it does not have"
        )
    return [_access(arg, named, is_index=arg.name in used) for arg in spec.args]


def _access(arg: TensorArg, named: Mapping[str, TensorArg], is_index: bool) -> Access:
    lanes = direct_symbols(arg.device_coordinates[-1])
    stick = lanes[0] if lanes else None
    order: list[sympy.Symbol] = []
    indices: list[str] = []
    indirect = None
    # With one stick at most there is nothing to count, and a constant stands for its number.
    lone = stick is not None and all(
        stick not in direct_symbols(each) for each in arg.device_coordinates[:-1]
    )
    for coordinate in reversed(arg.device_coordinates[:-1]):
        found = _by_step(coordinate)
        for name in index_names(coordinate):
            indices.append(name)
            symbols = _symbols(named[name])
            if len(indices) == 1 and len(symbols) == 1 and symbols[0] not in order:
                indirect = symbols[0]
            found = [*found, *symbols]
        if not coordinate.free_symbols and lone:
            found = [stick]
        order += [symbol for symbol in found if symbol not in order]
    order += [symbol for symbol in lanes if symbol not in order]
    indices += index_names(arg.device_coordinates[-1])
    return Access(arg, stick, tuple(order), tuple(indices), indirect, is_index)


def _by_step(coordinate: sympy.Expr) -> list[sympy.Symbol]:
    """Symbols of a coordinate, from the one that moves it least."""
    symbols = direct_symbols(coordinate)
    if len(symbols) < 2:
        return symbols
    coefficients = {symbol: abs(coordinate.coeff(symbol)) for symbol in symbols}
    return sorted(symbols, key=lambda symbol: (coefficients[symbol], str(symbol)))


def _symbols(arg: TensorArg) -> list[sympy.Symbol]:
    found: list[sympy.Symbol] = []
    for coordinate in reversed(arg.device_coordinates):
        found += [symbol for symbol in direct_symbols(coordinate) if symbol not in found]
    return found
