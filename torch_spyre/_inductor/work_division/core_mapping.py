"""Which core has which slice."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import sympy

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.work_division.problem import MATMUL_OPS


@dataclass(frozen=True)
class Digit:
    """A symbol's place in the number of a core: its slice is `(core // stride) % split`."""

    symbol: sympy.Symbol
    stride: int
    split: int

    def slice_of(self, core: int) -> int:
        return (core // self.stride) % self.split


@dataclass(frozen=True)
class CoreMapping:
    """A core's number read as digits, one for each symbol that is split, the fastest first."""

    symbols: tuple[sympy.Symbol, ...]
    digits: tuple[Digit, ...]

    @property
    def cores(self) -> int:
        return prod(digit.split for digit in self.digits)

    @cached_property
    def digit_of(self) -> Mapping[sympy.Symbol, Digit]:
        """Of the symbols that are split; the slice of any other is 0."""
        return {digit.symbol: digit for digit in self.digits}

    def slices(self, core: int) -> dict[sympy.Symbol, int]:
        if not 0 <= core < self.cores:
            raise IndexError(f"core {core} of {self.cores}")
        return {
            symbol: self.digit_of[symbol].slice_of(core) if symbol in self.digit_of else 0
            for symbol in self.symbols
        }


def core_mapping(spec: OpSpec, *, k_fast: bool | None = None) -> CoreMapping:
    """Slices in the order of the iteration space, its first symbol changing from core to core.

    With `k_fast` (None: SPYRE_CORE_ID_K_FAST_EMISSION) cores that share the inner dim of a matrix
    product are neighbours on the ring, so that a partial sum travels one hop.
    """
    symbols = tuple(spec.iteration_space)
    order = symbols
    if _k_is_fast(spec, knobs.division.k_fast if k_fast is None else k_fast):
        order = (symbols[-1], *symbols[:-1])
    digits = []
    stride = 1
    for symbol in order:
        split = spec.splits[symbol]
        if split > 1:
            digits.append(Digit(symbol, stride, split))
        stride *= split
    return CoreMapping(symbols, tuple(digits))


def _k_is_fast(spec: OpSpec, wanted: bool) -> bool:
    splits = list(spec.splits.values())
    return wanted and spec.op in MATMUL_OPS and len(splits) >= 3 and splits[-1] > 1


def core_slices(spec: OpSpec, core: int, *, k_fast: bool | None = None) -> dict[sympy.Symbol, int]:
    """For each symbol, which of its slices the core has."""
    return core_mapping(spec, k_fast=k_fast).slices(core)
