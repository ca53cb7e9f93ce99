"""Sizes of tiles: integers, or values that are known when the kernel runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from torch_spyre._inductor.to_ktir.indices import IndexArithmetic
from torch_spyre.errors import UnsupportedError


@dataclass(frozen=True)
class Extent:
    """A size that is known at run time, and is never negative.

    Arithmetic with an integer emits an op where the value is defined, once for each result, so that
    equal extents compare equal.
    """

    value: SSAValue
    maximum: int
    arithmetic: IndexArithmetic

    def __mul__(self, factor: int) -> "Extent":
        return self if factor == 1 else self._derived(arith.MuliOp, factor, self.maximum * factor)

    __rmul__ = __mul__

    def __add__(self, summand: int) -> "Extent":
        if summand == 0:
            return self
        return self._derived(arith.AddiOp, summand, self.maximum + summand)

    __radd__ = __add__

    def __floordiv__(self, divisor: int) -> "Extent":
        if divisor == 1:
            return self
        return self._derived(arith.DivUIOp, divisor, self.maximum // divisor)

    def __mod__(self, divisor: int) -> "Extent":
        return self._derived(arith.RemUIOp, divisor, min(self.maximum, divisor - 1))

    def __lt__(self, other: object) -> bool:
        raise UnsupportedError("a kernel that compares a size which is known only at launch")

    def at_most(self, limit: "int | Extent") -> "Extent":
        """Emit the smaller of this size and a limit."""
        if isinstance(limit, Extent):
            operation = arith.MinSIOp(self.value, limit.value)
            maximum = min(self.maximum, limit.maximum)
            return Extent(self.arithmetic.add_op(operation), maximum, self.arithmetic)
        return self._derived(arith.MinSIOp, limit, min(self.maximum, limit))

    def after(self, start: SSAValue) -> "Extent":
        """Emit the size of what remains after a start; 0 if it is beyond the end."""
        difference = self.arithmetic.add_op(arith.SubiOp(self.value, start))
        remainder = arith.MaxSIOp(difference, self.arithmetic.constant(0))
        return Extent(self.arithmetic.add_op(remainder), self.maximum, self.arithmetic)

    def _derived(self, kind: Callable[..., Operation], operand: int, maximum: int) -> "Extent":
        key = (self.value, kind, operand)
        known = self.arithmetic.derived
        if key not in known:
            operation = kind(self.value, self.arithmetic.constant(operand))
            _insert_after_definition(self.value, operation)
            known[key] = operation.results[0]
        return Extent(known[key], maximum, self.arithmetic)


def _insert_after_definition(value: SSAValue, operation: Operation) -> None:
    owner = value.owner
    if isinstance(owner, Block):
        first = owner.first_op
        if first is None:
            owner.add_op(operation)
        else:
            owner.insert_op_before(operation, first)
        return
    block = owner.parent_block()
    assert block is not None
    block.insert_op_after(operation, owner)


Size = int | Extent
Shape = tuple[Size, ...]


def static(shape: Sequence[Size]) -> tuple[int, ...]:
    """Return a shape as types state it, with `?` for sizes known at run time."""
    return tuple(DYNAMIC_INDEX if isinstance(size, Extent) else size for size in shape)


def as_operands(shape: Sequence[Size]) -> list[int | SSAValue]:
    """Return a shape as ops accept it: integers, and values for sizes known at run time."""
    return [size.value if isinstance(size, Extent) else size for size in shape]


def dynamic(shape: Sequence[Size]) -> list[SSAValue]:
    """Return the values of the sizes that are known at run time."""
    return [size.value for size in shape if isinstance(size, Extent)]


def smaller(left: Size, right: Size) -> Size:
    """Return the smaller of two sizes."""
    if isinstance(left, Extent):
        return left if left == right else left.at_most(right)
    return right.at_most(left) if isinstance(right, Extent) else min(left, right)


def ceil_divided(size: Size, divisor: int) -> Size:
    """Return the quotient rounded up."""
    return (size + (divisor - 1)) // divisor


def known(size: Size) -> int:
    """Return a size that is known; raise UnsupportedError for one that is known at run time."""
    if isinstance(size, Extent):
        raise UnsupportedError("a kernel of this kind with a size that is known only at launch")
    return size


def maximum_of(size: Size) -> int:
    """Return the largest value of a size."""
    return size.maximum if isinstance(size, Extent) else size
