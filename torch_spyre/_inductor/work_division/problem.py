"""The op that the passes divide: its dims, their sizes, and the units they are divided in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor
from types import MappingProxyType

import sympy

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import MATMUL_OPS, RESTICKIFY, TOPK_OPS
from torch_spyre._inductor.work_division.expressions import (
    bounds,
    index_tensors,
    is_indirect,
    symbols_of,
)
from torch_spyre._inductor.work_division.granularity import Granularity
from torch_spyre._inductor.work_division.spans import coordinate_extent, span_of_slice
from torch_spyre.cards import CardDescription

Splits = Mapping[sympy.Symbol, int]
NO_GRANULARITY: Mapping[sympy.Symbol, Granularity] = MappingProxyType({})


def stick_variables(spec: OpSpec) -> dict[sympy.Symbol, int]:
    """Return the symbols that run inside sticks, with the elements of the largest such stick."""
    elements: dict[sympy.Symbol, int] = {}
    for tensor in spec.args:
        lane_symbols = symbols_of(tensor.device_coordinates[-1])
        if len(lane_symbols) == 1:
            (symbol,) = lane_symbols
            elements[symbol] = max(elements.get(symbol, 1), tensor.elements_per_stick)
    return {symbol: elements[symbol] for symbol in spec.iteration_space if symbol in elements}


def stick_adjusted(spec: OpSpec) -> dict[sympy.Symbol, int]:
    """Return the sizes in the units that are divided: sticks for stick variables, else elements."""
    stick_elements = stick_variables(spec)
    return {
        symbol: -(-size // stick_elements.get(symbol, 1)) for symbol, size in spec.sizes.items()
    }


@dataclass(frozen=True)
class Problem:
    """An op to divide over `cores` cores of a card."""

    spec: OpSpec
    card: CardDescription
    cores: int
    granularity: Mapping[sympy.Symbol, Granularity] = field(default_factory=lambda: NO_GRANULARITY)

    @property
    def span_limit(self) -> int:
        """Return the largest legal span of a tensor on one core, in bytes."""
        return self.card.memory.span_limit_bytes

    @property
    def is_matmul(self) -> bool:
        return self.spec.op in MATMUL_OPS

    @property
    def is_topk(self) -> bool:
        return self.spec.op in TOPK_OPS

    @property
    def is_restickify(self) -> bool:
        return self.spec.op == RESTICKIFY

    @cached_property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        return tuple(self.spec.iteration_space)

    @cached_property
    def sizes(self) -> dict[sympy.Symbol, int]:
        """Return the sizes in elements, the largest ones where they are dynamic."""
        return self.spec.sizes | {
            symbol: dynamic.max_size for symbol, dynamic in self.granularity.items()
        }

    @cached_property
    def stick_elements(self) -> dict[sympy.Symbol, int]:
        """Return the elements per stick of the stick variables."""
        return stick_variables(self.spec)

    @cached_property
    def units(self) -> dict[sympy.Symbol, int]:
        """Return the sizes in sticks or elements, by which dims are ranked."""
        return {
            symbol: -(-size // self.stick_elements.get(symbol, 1))
            for symbol, size in self.sizes.items()
        }

    @cached_property
    def divisible(self) -> dict[sympy.Symbol, int]:
        """Return, for each symbol, the number that its splits must divide."""
        return self.units | {
            symbol: dynamic.granularity for symbol, dynamic in self.granularity.items()
        }

    @cached_property
    def output_symbols(self) -> frozenset[sympy.Symbol]:
        """Return the symbols of the output, including those that run only inside its sticks."""
        return frozenset(
            symbol
            for coordinate in self.spec.output.device_coordinates
            for symbol in symbols_of(coordinate)
        )

    @cached_property
    def output_dims(self) -> tuple[sympy.Symbol, ...]:
        """Return the symbols whose split gives every core different sticks of the output."""
        owned = {
            symbol
            for position in range(len(self.spec.output.device_size) - 1)
            for symbol in self.coordinate_symbols(self.spec.output, position)
        } | self.scattered_symbols
        return tuple(symbol for symbol in self.symbols if symbol in owned)

    @cached_property
    def reduction_dims(self) -> tuple[sympy.Symbol, ...]:
        """Return the symbols whose split makes cores combine their results."""
        return tuple(
            symbol
            for symbol in self.symbols
            if symbol not in self.output_symbols and symbol not in self.scattered_symbols
        )

    @cached_property
    def index_symbols(self) -> frozenset[sympy.Symbol]:
        """Return the symbols that run over the entries of index tensors."""
        names = {name for tensor in self.spec.args for name in index_tensors(tensor)}
        return frozenset(
            symbol
            for tensor in self.spec.args
            if tensor.name in names
            for coordinate in tensor.device_coordinates
            for symbol in symbols_of(coordinate)
        )

    @cached_property
    def scattered_symbols(self) -> frozenset[sympy.Symbol]:
        """Return the symbols of entries that a scatter writes: these count as output dims."""
        return (
            self.index_symbols - self.output_symbols
            if is_indirect(self.spec.output)
            else frozenset()
        )

    @cached_property
    def spanning_tensors(self) -> tuple[TensorArg, ...]:
        """Return the tensors whose span is limited: in device memory, and not indirect."""
        return tuple(
            self._with_largest_sizes(tensor)
            for tensor in self.spec.args
            if not tensor.in_scratchpad and not is_indirect(tensor)
        )

    def _with_largest_sizes(self, tensor: TensorArg) -> TensorArg:
        """Return the tensor with device sizes for the largest of its dynamic sizes."""
        last = {symbol: size - 1 for symbol, size in self.sizes.items()}
        device_size = list(tensor.device_size)
        for position, coordinate in enumerate(tensor.device_coordinates[:-1]):
            limits = bounds(coordinate, last)
            if limits is not None and symbols_of(coordinate) & self.granularity.keys():
                device_size[position] = max(device_size[position], floor(limits[1]) + 1)
        return replace(tensor, device_size=device_size)

    def coordinate_symbols(self, tensor: TensorArg, position: int) -> set[sympy.Symbol]:
        """Return the symbols of a coordinate; none if the device dim has only one index."""
        if tensor.device_size[position] == 1:
            return set()
        return symbols_of(tensor.device_coordinates[position])

    def slice_size(self, symbol: sympy.Symbol, split: int) -> int:
        """Return the elements of a symbol that a core has: whole sticks of a stick variable."""
        if symbol not in self.stick_elements:
            return self.sizes[symbol] // split
        elements = -(-self.units[symbol] // split) * self.stick_elements[symbol]
        return min(self.sizes[symbol], elements)

    def slice_sizes(self, splits: Splits) -> dict[sympy.Symbol, int]:
        return {symbol: self.slice_size(symbol, splits.get(symbol, 1)) for symbol in self.symbols}

    def span(self, tensor: TensorArg, splits: Splits) -> int:
        """Return the span in bytes of a core's slice of a tensor."""
        return span_of_slice(tensor, self.slice_sizes(splits))

    def extent(self, tensor: TensorArg, position: int, splits: Splits) -> int:
        """Return the number of indices of a device dim that a core's slice spans."""
        return coordinate_extent(tensor, position, self.slice_sizes(splits))
