"""Maps cores to the slices of an op that they compute."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import sympy

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import MATMUL_OPS


@dataclass(frozen=True)
class Digit:
    """One digit of a core id: the core's slice of a symbol, `(core // stride) % split`."""

    symbol: sympy.Symbol
    stride: int
    split: int

    def slice_of(self, core: int) -> int:
        return (core // self.stride) % self.split


@dataclass(frozen=True)
class CoreMapping:
    """A core id as mixed-radix digits, one for each split symbol, the fastest-varying first."""

    symbols: tuple[sympy.Symbol, ...]
    digits: tuple[Digit, ...]

    @property
    def cores(self) -> int:
        return prod(digit.split for digit in self.digits)

    @cached_property
    def digit_of(self) -> Mapping[sympy.Symbol, Digit]:
        """Return the digits of the split symbols; the slice of any other symbol is 0."""
        return {digit.symbol: digit for digit in self.digits}

    def slices(self, core: int) -> dict[sympy.Symbol, int]:
        """Return the index of the core's slice of every symbol."""
        if not 0 <= core < self.cores:
            raise IndexError(f"core {core} is out of range: the mapping has {self.cores} cores")
        return {
            symbol: self.digit_of[symbol].slice_of(core) if symbol in self.digit_of else 0
            for symbol in self.symbols
        }


def core_mapping(spec: OpSpec, *, k_fast: bool | None = None) -> CoreMapping:
    """Return the mapping in the order of the iteration space, its first symbol the fastest.

    With `k_fast` (None: SPYRE_CORE_ID_K_FAST_EMISSION) cores that split the inner dim of a matmul
    are neighbours on the ring, so that a partial sum travels one hop.
    """
    symbols = tuple(spec.iteration_space)
    order = symbols
    if _is_k_fast(spec, knobs.division.k_fast if k_fast is None else k_fast):
        order = (symbols[-1], *symbols[:-1])
    digits = []
    stride = 1
    for symbol in order:
        split = spec.splits[symbol]
        if split > 1:
            digits.append(Digit(symbol, stride, split))
        stride *= split
    return CoreMapping(symbols, tuple(digits))


def _is_k_fast(spec: OpSpec, enabled: bool) -> bool:
    splits = list(spec.splits.values())
    return enabled and spec.op in MATMUL_OPS and len(splits) >= 3 and splits[-1] > 1


def core_slices(spec: OpSpec, core: int, *, k_fast: bool | None = None) -> dict[sympy.Symbol, int]:
    """Return the index of the core's slice of every symbol."""
    return core_mapping(spec, k_fast=k_fast).slices(core)
