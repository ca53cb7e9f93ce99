"""The register file of a program while it is compiled, and constant folding of integer ops.

Ops on constants are folded; the others become scalar instructions. Bounds of integers are tracked,
so that a size known only at run time can still be allocated in the scratchpad.
"""

import math
import struct
from collections.abc import Callable, Sequence

from torch_spyre.backend.program.instructions import (
    CORE_X,
    CORE_Y,
    CORE_Z,
    FIRST_FREE_REGISTER,
    Constant,
    ElementType,
)

Bounds = tuple[int, int]


def wrapped(value: int, type: ElementType) -> int:
    """Return an integer wrapped to the type's width in two's complement; an I1 is 0 or 1."""
    width = type.bits
    value &= (1 << width) - 1
    if type is ElementType.I1 or value < 1 << (width - 1):
        return value
    return value - (1 << width)


def _divide_towards_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


# On signed integers.
_CONSTANT_FOLDS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
    "cmpi_eq": lambda a, b: int(a == b),
    "cmpi_ne": lambda a, b: int(a != b),
    "cmpi_slt": lambda a, b: int(a < b),
    "cmpi_sle": lambda a, b: int(a <= b),
    "cmpi_sgt": lambda a, b: int(a > b),
    "cmpi_sge": lambda a, b: int(a >= b),
}
# Defined for positive divisors; the unsigned ones also need a dividend that is not negative.
_QUOTIENTS: dict[str, Callable[[int, int], int]] = {
    "divsi": _divide_towards_zero,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: a // b,
    "ceildivui": lambda a, b: -(-a // b),
}
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    **_QUOTIENTS,
    "remsi": lambda a, b: a - b * _divide_towards_zero(a, b),
    "remui": lambda a, b: a % b,
}
_UNSIGNED = {"divui", "remui", "ceildivui"}
# The bounds of one operand are enough to bound the result.
_BOUNDED_BY_EITHER_OPERAND = {"minsi", "minui", "andi", "remui", "remsi"}
_SIGNED_CASTS = {"index_cast", "extsi", "trunci"}
_UNSIGNED_CASTS = {"index_castui", "extui"}


def _signed(lane: int, type: ElementType) -> int:
    """Return a lane as a signed integer: a true I1 is -1."""
    return -lane if type is ElementType.I1 else lane


def constant_fold(
    op: str, values: list[int], operand: ElementType, result: ElementType
) -> int | None:
    """Return the result of an integer op on constant lanes; None if it is not folded."""
    if op == "select":
        return values[1] if values[0] else values[2]
    if op in _UNSIGNED_CASTS:
        return wrapped(values[0] & ((1 << operand.bits) - 1), result)
    signed = [_signed(value, operand) for value in values]
    if op in _SIGNED_CASTS:
        return wrapped(signed[0], result)
    if op in _CONSTANT_FOLDS:
        return wrapped(_CONSTANT_FOLDS[op](*signed), result)
    if op in _DIVISIONS and signed[1] > 0 and (op not in _UNSIGNED or signed[0] >= 0):
        return wrapped(_DIVISIONS[op](*signed), result)
    return None


def bound(
    op: str, ranges: Sequence[Bounds | None], operand: ElementType, result: ElementType
) -> Bounds | None:
    """Return the bounds of the result of an op on bounded integers; None if they are unknown."""
    if op.startswith("cmpi_"):
        return 0, 1
    bounds = _select_bound(ranges) if op == "select" else _bound(op, ranges, operand)
    # A result that may wrap around has no useful bounds.
    if bounds is None or (wrapped(bounds[0], result), wrapped(bounds[1], result)) != bounds:
        return None
    return bounds


def _select_bound(ranges: Sequence[Bounds | None]) -> Bounds | None:
    _, true_value, false_value = ranges
    return _union(true_value, false_value)


def _union(left: Bounds | None, right: Bounds | None) -> Bounds | None:
    if left is None or right is None:
        return None
    return min(left[0], right[0]), max(left[1], right[1])


def limits(type: ElementType) -> Bounds:
    """Return the bounds of a type."""
    half = 1 << (type.bits - 1)
    return (0, 1) if type is ElementType.I1 else (-half, half - 1)


def _default_bounds(type: ElementType) -> Bounds:
    """Return the bounds of an unbounded operand; sizes are far below the range of 64 bits."""
    return (-(1 << 62), 1 << 62) if type is ElementType.I64 else limits(type)


def _bound(op: str, ranges: Sequence[Bounds | None], operand: ElementType) -> Bounds | None:
    if op in _BOUNDED_BY_EITHER_OPERAND and any(bounds is not None for bounds in ranges):
        ranges = [_default_bounds(operand) if bounds is None else bounds for bounds in ranges]
    known = [bounds for bounds in ranges if bounds is not None]
    if len(known) != len(ranges):
        return None
    if op in _SIGNED_CASTS:
        low, high = (_signed(lane, operand) for lane in known[0])
        return min(low, high), max(low, high)
    if op in _UNSIGNED_CASTS:
        return known[0] if known[0][0] >= 0 else None
    if len(known) != 2 or operand is ElementType.I1:
        return None
    (a, b), (c, d) = known
    match op:
        case "addi":
            return a + c, b + d
        case "subi":
            return a - d, b - c
        case "muli":
            corners = [a * c, a * d, b * c, b * d]
            return min(corners), max(corners)
        case "minsi":
            return min(a, c), min(b, d)
        case "maxsi":
            return max(a, c), max(b, d)
        case "minui" | "andi" if a >= 0 or c >= 0:
            # A negative integer is a large unsigned one, with all high bits set.
            return 0, min(high for low, high in known if low >= 0)
        case "maxui" if a >= 0 and c >= 0:
            return max(a, c), max(b, d)
        case "remui" if c > 0:
            return 0, d - 1 if a < 0 else min(b, d - 1)
        case "remsi" if c > 0:
            # The remainder has the sign of the dividend and is nearer to 0 than both.
            return max(min(a, 0), 1 - d), min(max(b, 0), d - 1)
    if op in _QUOTIENTS and c > 0 and (a >= 0 or op not in _UNSIGNED):
        divide = _QUOTIENTS[op]
        corners = [divide(left, right) for left in (a, b) for right in (c, d)]
        return min(corners), max(corners)
    return None


class Registers:
    """The registers of a program with their constants and bounds."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        self.count = FIRST_FREE_REGISTER
        self._constants: dict[int, int] = {}
        self._bits: dict[int, int] = {}
        self._bounds: dict[int, Bounds] = {0: (0, math.prod(grid) - 1)}
        for register, size in zip((CORE_X, CORE_Y, CORE_Z), grid, strict=True):
            self._bounds[register] = (0, size - 1)

    def new(self, bounds: Bounds | None = None) -> int:
        register = self.count
        self.count += 1
        if bounds is not None:
            self._bounds[register] = bounds
        return register

    def constant(self, bits: int) -> int:
        """Return a register that holds these 64 bits from the start."""
        if bits not in self._constants:
            register = self.new((bits, bits))
            self._constants[bits] = register
            self._bits[register] = bits
        return self._constants[bits]

    def constant_value(self, register: int) -> int | None:
        """Return the bits of the constant in a register; None if it holds no constant."""
        return self._bits.get(register)

    def bounds(self, register: int) -> Bounds | None:
        """Return the bounds of the integer in a register; None if they are unknown."""
        return self._bounds.get(register)

    def set_bounds(self, register: int, bounds: Bounds) -> None:
        self._bounds[register] = bounds

    def widen(self, register: int, bounds: Bounds | None) -> None:
        """Extend the bounds of a register so that they contain `bounds`; None: unknown."""
        union = _union(self._bounds.pop(register, None), bounds)
        if union is not None:
            self._bounds[register] = union

    def constants(self) -> tuple[Constant, ...]:
        return tuple(Constant(register, bits) for bits, register in self._constants.items())


def float32_bits(value: float) -> int:
    """Return the bits of a value as float32; values out of range, of any size, are infinite."""
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except (OverflowError, struct.error):
        return float32_bits(math.inf if value > 0 else -math.inf)
