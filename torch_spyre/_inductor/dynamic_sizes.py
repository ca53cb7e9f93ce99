"""Kernels for a range of sizes: OpSpecs whose sizes are expressions of size symbols.

A size symbol `s0`, `s1`, ... is an integer that is known when the kernel is launched. In the specs
of such a kernel, the sizes of loops, the sizes of device dims and the constants of coordinates may
be sums of size symbols, or the number of sticks that such a sum of elements fills.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import sympy
from sympy import Symbol

from torch_spyre._inductor.op_spec import OpSpec, TensorArg

_SIZE_NAME = re.compile(r"s\d+")


def size_symbol(number: int) -> Symbol:
    """Return the size symbol with this number."""
    return Symbol(f"s{number}", integer=True)


def is_size(symbol: sympy.Expr) -> bool:
    """Return whether an expression is a size symbol."""
    return bool(symbol.is_Symbol and _SIZE_NAME.fullmatch(symbol.name))


@dataclass(frozen=True)
class SizeRange:
    """The values that a size symbol may have."""

    minimum: int
    maximum: int

    def __contains__(self, size: int) -> bool:
        return self.minimum <= size <= self.maximum


@dataclass(frozen=True)
class DynamicSpecs:
    """The OpSpecs of a kernel for all sizes in some ranges."""

    specs: Sequence[OpSpec]
    ranges: Mapping[Symbol, SizeRange]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(self.ranges)

    @cached_property
    def loops(self) -> frozenset[Symbol]:
        """The symbols of loops whose sizes are known at launch."""
        return frozenset(
            symbol
            for spec in self.specs
            for symbol, (size, _) in spec.iteration_space.items()
            if not sympy.sympify(size).is_Integer
        )

    @cached_property
    def largest(self) -> list[OpSpec]:
        """The specs for the largest sizes, for which tiles are planned."""
        return specs_at(self.specs, {symbol: at.maximum for symbol, at in self.ranges.items()})


def value_at(expression: sympy.Expr | int, sizes: Mapping[Symbol, int]) -> int:
    """Return the value of an expression of size symbols."""
    if isinstance(expression, int):
        return expression
    return int(expression.xreplace({symbol: sympy.Integer(n) for symbol, n in sizes.items()}))


def specs_at(specs: Sequence[OpSpec], sizes: Mapping[Symbol, int]) -> list[OpSpec]:
    """Return the specs for these sizes."""
    return [
        replace(
            spec,
            iteration_space={
                symbol: (sympy.Integer(value_at(size, sizes)), split)
                for symbol, (size, split) in spec.iteration_space.items()
            },
            args=[arg_at(arg, sizes) for arg in spec.args],
        )
        for spec in specs
    ]


def arg_at(arg: TensorArg, sizes: Mapping[Symbol, int]) -> TensorArg:
    """Return a tensor argument for these sizes."""
    values = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
    strides = arg.stride_map
    return replace(
        arg,
        device_size=[value_at(size, sizes) for size in arg.device_size],
        device_coordinates=tuple(
            coordinate.xreplace(values) for coordinate in map(sympy.sympify, arg.device_coordinates)
        ),
        stride_map=None if strides is None else [value_at(step, sizes) for step in strides],
    )
