"""Index arithmetic of a kernel: folds constants, and emits `arith` ops on `index` values."""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from torch_spyre.ktir.dialects.arith import CmpiOp

_INDEX = IndexType()


@dataclass(frozen=True)
class Index:
    """`value` plus `offset`. `value` is a multiple of `multiple`; it is None for a constant."""

    offset: int
    value: SSAValue | None = None
    multiple: int = 0

    @property
    def is_known(self) -> bool:
        """Return whether the index is a constant."""
        return self.value is None

    def modulo(self, divisor: int) -> int:
        """Return the remainder, which must be the same on every core and in every iteration."""
        assert self.multiple % divisor == 0, f"{self} modulo {divisor} is not a constant"
        return self.offset % divisor


class IndexArithmetic:
    """Emits index arithmetic at the end of a block; constants go to the start of the function."""

    def __init__(self, entry: Block) -> None:
        self.entry = entry
        self.block = entry
        # The location of the ops that are emitted next.
        self.location: LocationAttr | None = None
        self._constants: dict[int, SSAValue] = {}
        # Results of ops on a value and an integer, by these and the kind of op.
        self.derived: dict[tuple[SSAValue, Callable[..., Operation], int], SSAValue] = {}

    def add_op(self, operation: Operation) -> SSAValue:
        """Append an op and return its first result."""
        self.append(operation)
        return operation.results[0]

    def append(self, operation: Operation) -> None:
        """Append an op at the current location."""
        self.locate(operation)
        self.block.add_op(operation)

    def locate(self, operation: Operation) -> None:
        """Set the location of an op and of those inside of it that have none."""
        if self.location is None:
            return
        for inner in operation.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = self.location

    def constant(self, value: int) -> SSAValue:
        if value not in self._constants:
            operation = arith.ConstantOp(IntegerAttr(value, _INDEX))
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(operation)
            else:
                self.entry.insert_op_before(operation, first)
            self._constants[value] = operation.result
        return self._constants[value]

    def value(self, index: Index) -> SSAValue:
        """Emit the index as one SSA value."""
        if index.value is None:
            return self.constant(index.offset)
        if not index.offset:
            return index.value
        return self.add_op(arith.AddiOp(index.value, self.constant(index.offset)))

    def plus(self, left: Index, right: Index) -> Index:
        offset = left.offset + right.offset
        if left.value is None or right.value is None:
            variable = left if right.value is None else right
            return Index(offset, variable.value, variable.multiple)
        total = self.add_op(arith.AddiOp(left.value, right.value))
        return Index(offset, total, gcd(left.multiple, right.multiple))

    def times(self, index: Index, factor: int) -> Index:
        if index.value is None or factor == 0:
            return Index(index.offset * factor)
        if factor == 1:
            return index
        product = self.add_op(arith.MuliOp(index.value, self.constant(factor)))
        return Index(index.offset * factor, product, index.multiple * factor)

    def divided(self, index: Index, divisor: int) -> Index:
        """Emit the quotient, rounded down. The divisor must divide `index.multiple`."""
        if divisor == 1:
            return index
        offset = index.offset // divisor
        if index.value is None:
            return Index(offset)
        assert index.multiple % divisor == 0
        quotient = self.add_op(arith.DivUIOp(index.value, self.constant(divisor)))
        return Index(offset, quotient, index.multiple // divisor)

    def is_zero(self, value: SSAValue) -> SSAValue:
        return self.add_op(CmpiOp("eq", value, self.constant(0)))

    def digit(self, value: SSAValue, stride: int, radix: int, limit: int) -> SSAValue:
        """Emit `(value // stride) % radix`, for a value below `limit`."""
        if stride > 1:
            value = self.add_op(arith.DivUIOp(value, self.constant(stride)))
        if stride * radix < limit:
            value = self.add_op(arith.RemUIOp(value, self.constant(radix)))
        return value
