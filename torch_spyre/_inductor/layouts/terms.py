"""Index arithmetic on small integer records.

An index is a `Linear`: a constant plus coefficients times digits, where a `Digit` is
`(base // divisor) % modulus` and a base is a loop variable or, where sums carry, another `Linear`.
Dividing such a sum is exact: `split` cuts each term where the division asks for it, and wraps the
whole sum in a division only if its terms do not separate. sympy appears in `parse` and
`expression` alone, because its arithmetic is a thousand times slower.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

import sympy
from torch.utils._sympy import functions as torch_functions

# The end of what is not bounded: the values of an index tensor, say.
UNBOUNDED = 1 << 62
_CACHED = 1 << 16


class Variable(NamedTuple):
    """A loop variable with values 0 to size - 1, or an expression that is taken as it is."""

    name: str | sympy.Expr
    size: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.size - 1


class Digit(NamedTuple):
    """`(base // divisor) % modulus`, without the latter if it is 0; from `low` to `high`."""

    base: "Variable | Linear"
    divisor: int
    modulus: int
    low: int
    high: int


class Linear(NamedTuple):
    """`constant + sum(coefficient * digit)`."""

    constant: int
    terms: tuple[tuple[int, Digit], ...]

    @property
    def bounds(self) -> tuple[int, int]:
        low = high = self.constant
        for coefficient, digit in self.terms:
            ends = coefficient * digit.low, coefficient * digit.high
            low += min(ends)
            high += max(ends)
        return low, high

    @property
    def is_zero(self) -> bool:
        return self == ZERO


ZERO = Linear(0, ())


def digit(base: Variable | Linear, divisor: int = 1, modulus: int = 0) -> Digit:
    low, high = (bound // divisor for bound in base.bounds)
    if modulus == 0 or (low >= 0 and high < modulus):
        return Digit(base, divisor, 0, low, high)
    return Digit(base, divisor, modulus, 0, modulus - 1)


def linear(constant: int, terms: Iterable[tuple[int, Digit]]) -> Linear:
    """The sum, with equal digits added up and the pieces of one digit put together again."""
    coefficients: dict[Digit, int] = {}
    for coefficient, each in terms:
        if each.low == each.high:
            constant += coefficient * each.low
        else:
            coefficients[each] = coefficients.get(each, 0) + coefficient
    found = [(each, coefficient) for each, coefficient in coefficients.items() if coefficient]
    while (pair := _adjacent(found)) is not None:
        finer, coarser = pair
        fine, coefficient = finer
        modulus = fine.modulus * coarser[0].modulus
        found[found.index(finer)] = (digit(fine.base, fine.divisor, modulus), coefficient)
        found.remove(coarser)
    return Linear(constant, tuple((coefficient, each) for each, coefficient in found))


def _adjacent(
    found: list[tuple[Digit, int]],
) -> tuple[tuple[Digit, int], tuple[Digit, int]] | None:
    """Two digits of one base that together are one longer digit."""
    if len({each.base for each, _ in found}) == len(found):
        return None
    for fine, coefficient in found:
        for coarse, larger in found:
            if (
                fine.modulus > 0
                and larger == coefficient * fine.modulus
                and coarse.divisor == fine.divisor * fine.modulus
                and coarse.base == fine.base
            ):
                return (fine, coefficient), (coarse, larger)
    return None


def add(left: Linear, right: Linear) -> Linear:
    return linear(left.constant + right.constant, (*left.terms, *right.terms))


def scale(value: Linear, factor: int) -> Linear:
    return linear(value.constant * factor, ((factor * c, each) for c, each in value.terms))


# --- Division -------------------------------------------------------------------------------------


@lru_cache(maxsize=_CACHED)
def split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """`value // divisor` and `value % divisor`."""
    if divisor == 1:
        return value, ZERO
    quotient, remainder = divmod(value.constant, divisor)
    multiples: list[tuple[int, Digit]] = []
    rest: list[tuple[int, Digit]] = []
    for coefficient, each in value.terms:
        if abs(coefficient) > divisor or coefficient % divisor == 0:
            times, coefficient = divmod(coefficient, divisor)
            multiples.append((times, each))
        if coefficient:
            rest.append((coefficient, each))
    pieces = [_cut_term(coefficient, each, divisor) for coefficient, each in rest]
    low = linear(remainder, (piece for _, small in pieces for piece in small))
    first, last = low.bounds
    separate = all(large or small for large, small in pieces)
    if separate and first >= 0 and last < divisor:
        carries = [piece for large, _ in pieces for piece in large]
        return linear(quotient, (*multiples, *carries)), low
    carried, low = _split_whole(linear(remainder, rest), divisor)
    return add(linear(quotient, multiples), carried), low


def _cut_term(
    coefficient: int, each: Digit, divisor: int
) -> tuple[list[tuple[int, Digit]], list[tuple[int, Digit]]]:
    """The term's share of quotient and remainder; both empty if it cannot be cut there."""
    size = abs(coefficient)
    if size * max(abs(each.low), abs(each.high)) < divisor:
        return [], [(coefficient, each)]
    if divisor % size:
        return [], []
    coarse, fine = cut(each, divisor // size)
    return [(coefficient // size, coarse)], [(coefficient, fine)]


def cut(each: Digit, at: int) -> tuple[Digit, Digit]:
    """`each // at` and `each % at`."""
    if each.modulus % at == 0:
        # The remaining modulus 1 would mean "always 0" where digit() reads 0 as "none".
        coarse = digit(each.base, each.divisor * at, each.modulus // at)
        if each.modulus == at:
            coarse = digit(Variable("", 1))
        return coarse, digit(each.base, each.divisor, at)
    whole = Linear(0, ((1, each),))
    return digit(whole, at), digit(whole, 1, at)


def _split_whole(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """For sums that carry: the division stays, over as little as possible."""
    common = gcd(divisor, *(coefficient for coefficient, _ in value.terms))
    offset, within = divmod(value.constant, common)
    reduced = Linear(offset, tuple((c // common, each) for c, each in value.terms))
    divisor //= common
    if divisor == 1:
        return reduced, Linear(within, ())
    if reduced.constant == 0 and len(reduced.terms) == 1 and reduced.terms[0][0] == 1:
        coarse, fine = cut(reduced.terms[0][1], divisor)
    else:
        coarse, fine = digit(reduced, divisor), digit(reduced, 1, divisor)
    return linear(0, [(1, coarse)]), linear(within, [(common, fine)])


# --- To and from sympy ----------------------------------------------------------------------------


def parse(index: sympy.Expr | int, ranges: Mapping[sympy.Symbol, int]) -> Linear:
    """The index as a record; symbols without a range, and what is no index arithmetic, as is."""
    sizes = tuple((symbol.name, int(size)) for symbol, size in ranges.items())
    return _parse_cached(sympy.sympify(index), sizes)


@lru_cache(maxsize=_CACHED)
def _parse_cached(index: sympy.Expr, sizes: tuple[tuple[str, int], ...]) -> Linear:
    return _parse(index, dict(sizes))


def _parse(index: sympy.Expr, sizes: Mapping[str, int]) -> Linear:
    if index.is_Integer:
        return Linear(int(index), ())
    if index.is_Symbol:
        return linear(0, [(1, digit(Variable(index.name, sizes.get(index.name, UNBOUNDED))))])
    if index.is_Add:
        total = ZERO
        for each in index.args:
            total = add(total, _parse(each, sizes))
        return total
    match index:
        case torch_functions.Identity():
            return _parse(index.args[0], sizes)
        case torch_functions.ModularIndexing() if _are_positive(index.args[1:]):
            base, divisor, modulus = index.args
            return split(split(_parse(base, sizes), int(divisor))[0], int(modulus))[1]
        case torch_functions.FloorDiv() if _are_positive(index.args[1:]):
            return split(_parse(index.args[0], sizes), int(index.args[1]))[0]
        case sympy.Mod() | torch_functions.Mod() | torch_functions.PythonMod() if _are_positive(
            index.args[1:]
        ):
            return split(_parse(index.args[0], sizes), int(index.args[1]))[1]
        case sympy.floor():
            divisor, dividend = _over_common_denominator(index.args[0])
            return split(_parse(dividend, sizes), divisor)[0]
    coefficient, rest = index.as_coeff_Mul()
    if coefficient.is_Integer and coefficient != 1:
        return scale(_parse(rest, sizes), int(coefficient))
    return linear(0, [(1, digit(Variable(index, UNBOUNDED)))])


def _are_positive(arguments: Iterable[sympy.Expr]) -> bool:
    return all(each.is_Integer and each > 0 for each in arguments)


def _over_common_denominator(value: sympy.Expr) -> tuple[int, sympy.Expr]:
    terms = [each.as_coeff_Mul() for each in sympy.Add.make_args(value)]
    if not all(coefficient.is_Rational for coefficient, _ in terms):
        return 1, value
    divisor = lcm(*(int(coefficient.q) for coefficient, _ in terms))
    return divisor, sympy.Add(*(coefficient * divisor * rest for coefficient, rest in terms))


@lru_cache(maxsize=_CACHED)
def expression(value: Linear) -> sympy.Expr:
    terms = [coefficient * _digit_expression(each) for coefficient, each in value.terms]
    return sympy.Add(value.constant, *terms)


@lru_cache(maxsize=_CACHED)
def _digit_expression(each: Digit) -> sympy.Expr:
    result = _base_expression(each.base)
    if each.divisor > 1:
        result = sympy.floor(result / each.divisor)
    return sympy.Mod(result, each.modulus) if each.modulus else result


def _base_expression(base: Variable | Linear) -> sympy.Expr:
    if isinstance(base, Linear):
        return expression(base)
    return sympy.Symbol(base.name, integer=True) if isinstance(base.name, str) else base.name


# --- Questions ------------------------------------------------------------------------------------


def digits(value: Linear) -> Iterator[tuple[Variable, Digit]]:
    """Every digit of a variable, those inside wrapped sums included."""
    for _, each in value.terms:
        if isinstance(each.base, Linear):
            yield from digits(each.base)
        else:
            yield each.base, each


def names(value: Linear) -> set[str]:
    """The symbols that the value depends on."""
    return {variable.name for variable, _ in digits(value) if isinstance(variable.name, str)}
