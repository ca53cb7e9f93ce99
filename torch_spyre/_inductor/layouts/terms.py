"""Integer index arithmetic on small records: sympy is too slow for the layout search.

An index is a `Linear`: a constant plus coefficients times digits, where a `Digit` is
`(base // divisor) % modulus` and a base is a loop variable or, where sums carry, another `Linear`.
Dividing such a sum is exact: `split` divides each term where it can, and wraps the whole sum in a
division only if its terms do not separate. `parse` and `expression` convert from and to sympy.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

import sympy
from torch.utils._sympy import functions as torch_functions

# The size of a variable without a known bound, such as a value of an index tensor.
UNBOUNDED = 1 << 62
_CACHE_SIZE = 1 << 16


class Variable(NamedTuple):
    """A loop variable with values 0 to size - 1, or an opaque sympy expression."""

    name: str | sympy.Expr
    size: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.size - 1


class Digit(NamedTuple):
    """`(base // divisor) % modulus`, from `low` to `high`; a modulus of 0 means none."""

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


def make_digit(base: Variable | Linear, divisor: int = 1, modulus: int = 0) -> Digit:
    """Return the digit with its bounds; a modulus without effect is dropped."""
    low, high = (bound // divisor for bound in base.bounds)
    if modulus == 0 or (low >= 0 and high < modulus):
        return Digit(base, divisor, 0, low, high)
    return Digit(base, divisor, modulus, 0, modulus - 1)


def make_linear(constant: int, terms: Iterable[tuple[int, Digit]]) -> Linear:
    """Return the normalized sum: equal digits are added, adjacent ones of a base are merged."""
    coefficients: dict[Digit, int] = {}
    for coefficient, digit in terms:
        if digit.low == digit.high:
            constant += coefficient * digit.low
        else:
            coefficients[digit] = coefficients.get(digit, 0) + coefficient
    summands = [(digit, coefficient) for digit, coefficient in coefficients.items() if coefficient]
    while (pair := _adjacent_digits(summands)) is not None:
        finer, coarser = pair
        fine, coefficient = finer
        modulus = fine.modulus * coarser[0].modulus
        merged = make_digit(fine.base, fine.divisor, modulus)
        summands[summands.index(finer)] = (merged, coefficient)
        summands.remove(coarser)
    return Linear(constant, tuple((coefficient, digit) for digit, coefficient in summands))


def _adjacent_digits(
    summands: list[tuple[Digit, int]],
) -> tuple[tuple[Digit, int], tuple[Digit, int]] | None:
    """Return two digits of one base that together are one longer digit, the finer first."""
    if len({digit.base for digit, _ in summands}) == len(summands):
        return None
    for fine, coefficient in summands:
        for coarse, larger in summands:
            if (
                fine.modulus > 0
                and larger == coefficient * fine.modulus
                and coarse.divisor == fine.divisor * fine.modulus
                and coarse.base == fine.base
            ):
                return (fine, coefficient), (coarse, larger)
    return None


def add(left: Linear, right: Linear) -> Linear:
    return make_linear(left.constant + right.constant, (*left.terms, *right.terms))


def scale(value: Linear, factor: int) -> Linear:
    return make_linear(value.constant * factor, ((factor * c, digit) for c, digit in value.terms))


# --- Division -------------------------------------------------------------------------------------


@lru_cache(maxsize=_CACHE_SIZE)
def split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """Return `value // divisor` and `value % divisor`."""
    if divisor == 1:
        return value, ZERO
    quotient, remainder = divmod(value.constant, divisor)
    multiples: list[tuple[int, Digit]] = []
    remaining_terms: list[tuple[int, Digit]] = []
    for coefficient, digit in value.terms:
        if abs(coefficient) > divisor or coefficient % divisor == 0:
            times, coefficient = divmod(coefficient, divisor)
            multiples.append((times, digit))
        if coefficient:
            remaining_terms.append((coefficient, digit))
    split_terms = [_split_term(*term, divisor) for term in remaining_terms]
    low = make_linear(remainder, (term for _, lows in split_terms for term in lows))
    minimum, maximum = low.bounds
    is_separable = all(highs or lows for highs, lows in split_terms)
    if is_separable and minimum >= 0 and maximum < divisor:
        carries = [term for highs, _ in split_terms for term in highs]
        return make_linear(quotient, (*multiples, *carries)), low
    carried, low = _split_whole(make_linear(remainder, remaining_terms), divisor)
    return add(make_linear(quotient, multiples), carried), low


def _split_term(
    coefficient: int, digit: Digit, divisor: int
) -> tuple[list[tuple[int, Digit]], list[tuple[int, Digit]]]:
    """Return the terms of a term's quotient and remainder; both are empty if it cannot be split."""
    size = abs(coefficient)
    if size * max(abs(digit.low), abs(digit.high)) < divisor:
        return [], [(coefficient, digit)]
    if divisor % size:
        return [], []
    coarse, fine = split_digit(digit, divisor // size)
    return [(coefficient // size, coarse)], [(coefficient, fine)]


def split_digit(digit: Digit, divisor: int) -> tuple[Digit, Digit]:
    """Return `digit // divisor` and `digit % divisor`."""
    if digit.modulus % divisor == 0:
        # The quotient is always 0: a variable of size 1.
        coarse = make_digit(digit.base, digit.divisor * divisor, digit.modulus // divisor)
        if digit.modulus == divisor:
            coarse = make_digit(Variable("", 1))
        return coarse, make_digit(digit.base, digit.divisor, divisor)
    whole = Linear(0, ((1, digit),))
    return make_digit(whole, divisor), make_digit(whole, 1, divisor)


def _split_whole(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """Return quotient and remainder of a sum that carries, with the division reduced."""
    common = gcd(divisor, *(coefficient for coefficient, _ in value.terms))
    offset, within = divmod(value.constant, common)
    reduced = Linear(offset, tuple((c // common, digit) for c, digit in value.terms))
    divisor //= common
    if divisor == 1:
        return reduced, Linear(within, ())
    if reduced.constant == 0 and len(reduced.terms) == 1 and reduced.terms[0][0] == 1:
        coarse, fine = split_digit(reduced.terms[0][1], divisor)
    else:
        coarse, fine = make_digit(reduced, divisor), make_digit(reduced, 1, divisor)
    return make_linear(0, [(1, coarse)]), make_linear(within, [(common, fine)])


# --- To and from sympy ----------------------------------------------------------------------------


def parse(index: sympy.Expr | int, ranges: Mapping[sympy.Symbol, int]) -> Linear:
    """Return the index as a record; any other expression becomes an unbounded variable."""
    sizes = tuple((symbol.name, int(size)) for symbol, size in ranges.items())
    return _parse_cached(sympy.sympify(index), sizes)


@lru_cache(maxsize=_CACHE_SIZE)
def _parse_cached(index: sympy.Expr, sizes: tuple[tuple[str, int], ...]) -> Linear:
    return _parse(index, dict(sizes))


def _parse(index: sympy.Expr, sizes: Mapping[str, int]) -> Linear:
    if index.is_Integer:
        return Linear(int(index), ())
    if index.is_Symbol:
        return make_linear(
            0, [(1, make_digit(Variable(index.name, sizes.get(index.name, UNBOUNDED))))]
        )
    if index.is_Add:
        total = ZERO
        for term in index.args:
            total = add(total, _parse(term, sizes))
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
    coefficient, factor = index.as_coeff_Mul()
    if coefficient.is_Integer and coefficient != 1:
        return scale(_parse(factor, sizes), int(coefficient))
    return make_linear(0, [(1, make_digit(Variable(index, UNBOUNDED)))])


def _are_positive(arguments: Iterable[sympy.Expr]) -> bool:
    return all(argument.is_Integer and argument > 0 for argument in arguments)


def _over_common_denominator(value: sympy.Expr) -> tuple[int, sympy.Expr]:
    """Return the common denominator of a sum, and the sum times it."""
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(value)]
    if not all(coefficient.is_Rational for coefficient, _ in terms):
        return 1, value
    divisor = lcm(*(int(coefficient.q) for coefficient, _ in terms))
    return divisor, sympy.Add(*(coefficient * divisor * factor for coefficient, factor in terms))


@lru_cache(maxsize=_CACHE_SIZE)
def expression(value: Linear) -> sympy.Expr:
    """Return the index as a sympy expression."""
    terms = [coefficient * _digit_expression(digit) for coefficient, digit in value.terms]
    return sympy.Add(value.constant, *terms)


@lru_cache(maxsize=_CACHE_SIZE)
def _digit_expression(digit: Digit) -> sympy.Expr:
    result = _base_expression(digit.base)
    if digit.divisor > 1:
        result = sympy.floor(result / digit.divisor)
    return modulo(result, digit.modulus) if digit.modulus else result


def modulo(value: sympy.Expr, modulus: int) -> sympy.Expr:
    """Return `value % modulus`.

    SymPy 1.14 simplifies `Mod(a*Mod(x, m), n)` to `Mod(a*Mod(x, m)**2, n)` or `a*Mod(x, n)`, which
    are other numbers, so multiples of a `Mod` are written with `floor`.
    """
    return sympy.Mod(_with_floor_for_mod(value), modulus)


def _with_floor_for_mod(value: sympy.Expr) -> sympy.Expr:
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(value)]
    multiples = [
        (coefficient, factor)
        for coefficient, factor in terms
        if isinstance(factor, sympy.Mod) and coefficient not in (1, -1)
    ]
    if not multiples:
        return value
    for coefficient, factor in multiples:
        dividend, divisor = factor.args
        remainder = dividend - divisor * sympy.floor(dividend / divisor)
        value += sympy.expand(coefficient * remainder) - coefficient * factor
    return _with_floor_for_mod(value)


def _base_expression(base: Variable | Linear) -> sympy.Expr:
    if isinstance(base, Linear):
        return expression(base)
    return sympy.Symbol(base.name, integer=True) if isinstance(base.name, str) else base.name


# --- Variables of an index ------------------------------------------------------------------------


def digits(value: Linear) -> Iterator[tuple[Variable, Digit]]:
    """Yield every digit with its variable, including digits inside nested sums."""
    for _, digit in value.terms:
        if isinstance(digit.base, Linear):
            yield from digits(digit.base)
        else:
            yield digit.base, digit


def names(value: Linear) -> set[str]:
    """Return the names of the variables that the value depends on."""
    return {variable.name for variable, _ in digits(value) if isinstance(variable.name, str)}
