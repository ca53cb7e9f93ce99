"""One op as the passes see it: what there is to divide, and in which units."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor
from types import MappingProxyType

import sympy

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.work_division.expressions import (
    bounds,
    index_tensors,
    is_indirect,
    symbols_of,
)
from torch_spyre._inductor.work_division.granularity import Granularity
from torch_spyre._inductor.work_division.spans import (
    SPAN_LIMIT_BYTES,
    coordinate_extent,
    span_of_share,
)

MATMUL_OPS = frozenset({"matmul", "batchmatmul", "batchmatmulfp8"})
TOPK_OPS = frozenset({"topkvalue", "topkindex"})
RESTICKIFY_PREFIX = "ReStickifyOp"

Splits = Mapping[sympy.Symbol, int]
NO_GRANULARITY: Mapping[sympy.Symbol, Granularity] = MappingProxyType({})


def stick_variables(spec: OpSpec) -> dict[sympy.Symbol, int]:
    """Symbols that run inside sticks, with the most elements in a stick of any such tensor."""
    found: dict[sympy.Symbol, int] = {}
    for tensor in spec.args:
        inside = symbols_of(tensor.device_coordinates[-1])
        if len(inside) == 1:
            (symbol,) = inside
            found[symbol] = max(found.get(symbol, 1), tensor.elements_per_stick)
    return {symbol: found[symbol] for symbol in spec.iteration_space if symbol in found}


def stick_adjusted(spec: OpSpec) -> dict[sympy.Symbol, int]:
    """Sizes in the units that can be divided: sticks for stick variables, else elements."""
    sticks = stick_variables(spec)
    return {symbol: -(-size // sticks.get(symbol, 1)) for symbol, size in spec.sizes.items()}


@dataclass(frozen=True)
class Problem:
    """An op to divide, with what follows from it; computed once, when first asked for."""

    spec: OpSpec
    cores: int
    granularity: Mapping[sympy.Symbol, Granularity] = field(default_factory=lambda: NO_GRANULARITY)
    span_limit: int = SPAN_LIMIT_BYTES

    @property
    def is_matmul(self) -> bool:
        return self.spec.op in MATMUL_OPS

    @property
    def is_topk(self) -> bool:
        return self.spec.op in TOPK_OPS

    @property
    def is_restickify(self) -> bool:
        return self.spec.op.startswith(RESTICKIFY_PREFIX)

    @cached_property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        return tuple(self.spec.iteration_space)

    @cached_property
    def sizes(self) -> dict[sympy.Symbol, int]:
        """In elements; the largest where a size is dynamic."""
        return self.spec.sizes | {
            symbol: each.max_size for symbol, each in self.granularity.items()
        }

    @cached_property
    def sticks(self) -> dict[sympy.Symbol, int]:
        return stick_variables(self.spec)

    @cached_property
    def units(self) -> dict[sympy.Symbol, int]:
        """Sizes in sticks or elements: by these dims are ranked."""
        return {
            symbol: -(-size // self.sticks.get(symbol, 1)) for symbol, size in self.sizes.items()
        }

    @cached_property
    def divisible(self) -> dict[sympy.Symbol, int]:
        """The number whose divisors are the splits of a symbol."""
        return self.units | {symbol: each.granularity for symbol, each in self.granularity.items()}

    @cached_property
    def written(self) -> frozenset[sympy.Symbol]:
        """Symbols of the output, those within its sticks too."""
        return frozenset(
            symbol for each in self.spec.output.device_coordinates for symbol in symbols_of(each)
        )

    @cached_property
    def output_dims(self) -> tuple[sympy.Symbol, ...]:
        """Symbols whose split gives each core its own sticks of the output."""
        owned = {
            symbol
            for position in range(len(self.spec.output.device_size) - 1)
            for symbol in self.coordinate_symbols(self.spec.output, position)
        } | self.scattered_entries
        return tuple(symbol for symbol in self.symbols if symbol in owned)

    @cached_property
    def reduction_dims(self) -> tuple[sympy.Symbol, ...]:
        """Symbols whose split makes cores combine their results."""
        return tuple(
            symbol
            for symbol in self.symbols
            if symbol not in self.written and symbol not in self.scattered_entries
        )

    @cached_property
    def entries(self) -> frozenset[sympy.Symbol]:
        """Symbols that run over the entries of index tensors."""
        names = {name for tensor in self.spec.args for name in index_tensors(tensor)}
        return frozenset(
            symbol
            for tensor in self.spec.args
            if tensor.name in names
            for coordinate in tensor.device_coordinates
            for symbol in symbols_of(coordinate)
        )

    @cached_property
    def scattered_entries(self) -> frozenset[sympy.Symbol]:
        """Entries that write to places the data decide: each its own, so they count as output."""
        return self.entries - self.written if is_indirect(self.spec.output) else frozenset()

    @cached_property
    def spanning_tensors(self) -> tuple[TensorArg, ...]:
        """Tensors whose span is limited: in device memory, and reached by coordinates alone."""
        return tuple(
            self._at_its_largest(tensor)
            for tensor in self.spec.args
            if not tensor.in_scratchpad and not is_indirect(tensor)
        )

    def _at_its_largest(self, tensor: TensorArg) -> TensorArg:
        """With room for the largest of its dynamic sizes, whatever size the spec was made for."""
        last = {symbol: size - 1 for symbol, size in self.sizes.items()}
        device_size = list(tensor.device_size)
        for position, coordinate in enumerate(tensor.device_coordinates[:-1]):
            limits = bounds(coordinate, last)
            if limits is not None and symbols_of(coordinate) & self.granularity.keys():
                device_size[position] = max(device_size[position], floor(limits[1]) + 1)
        return replace(tensor, device_size=device_size)

    def coordinate_symbols(self, tensor: TensorArg, position: int) -> set[sympy.Symbol]:
        """None where the dim has one index only, whatever the coordinate says."""
        if tensor.device_size[position] == 1:
            return set()
        return symbols_of(tensor.device_coordinates[position])

    def share(self, symbol: sympy.Symbol, split: int) -> int:
        """Elements that a core has of a symbol: whole sticks of a stick variable."""
        if symbol not in self.sticks:
            return self.sizes[symbol] // split
        whole = -(-self.units[symbol] // split) * self.sticks[symbol]
        return min(self.sizes[symbol], whole)

    def shares(self, splits: Splits) -> dict[sympy.Symbol, int]:
        return {symbol: self.share(symbol, splits.get(symbol, 1)) for symbol in self.symbols}

    def span(self, tensor: TensorArg, splits: Splits) -> int:
        return span_of_share(tensor, self.shares(splits))

    def extent(self, tensor: TensorArg, position: int, splits: Splits) -> int:
        return coordinate_extent(tensor, position, self.shares(splits))
