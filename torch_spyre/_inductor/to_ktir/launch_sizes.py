"""Emits the sizes of a kernel that are known when it is launched: expressions of its scalars."""

from collections.abc import Sequence
from dataclasses import replace

import sympy
from sympy import Symbol
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, SSAValue

from torch_spyre._inductor.dynamic_sizes import DynamicSpecs, SizeRange, value_at
from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.tiling.access import Access, access_of
from torch_spyre._inductor.to_ktir.extents import Extent, Shape, Size
from torch_spyre._inductor.to_ktir.indices import IndexArithmetic
from torch_spyre._inductor.to_ktir.memory_boxes import MemoryBox, MemoryBoxes
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects.ktdp.attributes import ExtractKind
from torch_spyre.ktir.dialects.ktdp.transfers import RuntimeArgExtractOp
from torch_spyre.ktir.dialects.ktdp.types import RuntimeArgType


def argument_type(limits: SizeRange) -> Attribute:
    """Return the type of the argument of a kernel that is a size in this range."""
    return RuntimeArgType(IndexType(), upperbound=limits.maximum)


class LaunchSizes:
    """The sizes of loops, device dims and offsets, emitted at the start of the kernel."""

    def __init__(
        self, arithmetic: IndexArithmetic, dynamic: DynamicSpecs, arguments: Sequence[SSAValue]
    ) -> None:
        self.arithmetic = arithmetic
        self._limits = {symbol: limits.maximum for symbol, limits in dynamic.ranges.items()}
        self._values: dict[sympy.Expr, Size] = {}
        for (symbol, limits), argument in zip(dynamic.ranges.items(), arguments, strict=True):
            extracted = arithmetic.add_op(
                RuntimeArgExtractOp(ExtractKind.VALUE, argument, IndexType())
            )
            self._values[symbol] = Extent(extracted, limits.maximum, arithmetic)
        self.loops: dict[Symbol, Extent] = {}
        for spec in dynamic.specs:
            for symbol, (expression, _) in spec.iteration_space.items():
                size = self._size(expression)
                if isinstance(size, Extent):
                    self.loops[symbol] = size
        # By the argument for the largest sizes. Emitted now, before the views that need them.
        self._boxes: dict[TensorArg, MemoryBoxes | None] = {}
        self._device_shapes: dict[TensorArg, tuple[Shape, Shape]] = {}
        for spec, largest in zip(dynamic.specs, dynamic.largest, strict=True):
            for arg, concrete in zip(spec.args, largest.args, strict=True):
                if not arg.in_scratchpad and concrete not in self._boxes:
                    self._device_shapes[concrete] = self._shape_and_strides(arg)
                    self._boxes[concrete] = self._resolved(access_of(concrete), arg)

    def boxes_of(self, access: Access) -> MemoryBoxes | None:
        """Return the rectangle of an access, which is that for the largest sizes."""
        return self._boxes[access.arg]

    def device_shape(self, arg: TensorArg) -> tuple[Shape, Shape]:
        """Return the sizes and strides of the device dims of a tensor for the largest sizes."""
        return self._device_shapes[arg]

    def _shape_and_strides(self, arg: TensorArg) -> tuple[Shape, Shape]:
        shape = tuple(self._size(size) for size in arg.device_size)
        strides: list[Size] = [1]
        for size in reversed(shape[1:]):
            strides.append(self._product(strides[-1], size))
        return shape, tuple(reversed(strides))

    def _size(self, expression: sympy.Expr | int) -> Size:
        expression = sympy.sympify(expression)
        if expression.is_Integer:
            return int(expression)
        if expression not in self._values:
            self._values[expression] = self._emitted(expression)
        return self._values[expression]

    def _emitted(self, expression: sympy.Expr) -> Size:
        if isinstance(expression, sympy.ceiling):
            numerator, divisor = sympy.fraction(sympy.together(expression.args[0]))
            return (self._size(sympy.expand(numerator)) + (int(divisor) - 1)) // int(divisor)
        if isinstance(expression, sympy.floor):
            numerator, divisor = sympy.fraction(sympy.together(expression.args[0]))
            return self._size(sympy.expand(numerator)) // int(divisor)
        if isinstance(expression, sympy.Mod):
            dividend = self._size(expression.args[0])
            assert isinstance(dividend, Extent)
            return dividend % int(expression.args[1])
        constant, total = 0, None
        for term, factor in expression.as_coefficients_dict().items():
            if term == 1:
                constant = int(factor)
                continue
            if term not in self._values or not factor.is_Integer or factor <= 0:
                raise UnsupportedError(f"a kernel with a size of {expression}")
            size = self._values[term] * int(factor)
            total = size if total is None else self._sum(total, size)
        assert total is not None
        maximum = value_at(expression, self._limits)
        shifted = total + constant
        assert isinstance(shifted, Extent)
        return Extent(shifted.value, maximum, self.arithmetic)

    def _sum(self, left: Size, right: Size) -> Size:
        if not isinstance(left, Extent):
            return right + left
        if not isinstance(right, Extent):
            return left + right
        total = self.arithmetic.add_op(arith.AddiOp(left.value, right.value))
        return Extent(total, left.maximum + right.maximum, self.arithmetic)

    def _product(self, left: Size, right: Size) -> Size:
        if 0 in (left, right):
            return 0
        if not isinstance(left, Extent):
            return right * left
        if not isinstance(right, Extent):
            return left * right
        product = self.arithmetic.add_op(arith.MuliOp(left.value, right.value))
        return Extent(product, left.maximum * right.maximum, self.arithmetic)

    def _offsets_of(self, arg: TensorArg) -> dict[int, Size]:
        """Return the constants of coordinates that are known at launch, by device dim."""
        offsets: dict[int, Size] = {}
        for dim, coordinate in enumerate(map(sympy.sympify, arg.device_coordinates)):
            sizes = [symbol for symbol in coordinate.free_symbols if symbol in self._limits]
            if sizes:
                loops = [symbol for symbol in coordinate.free_symbols if symbol not in self._limits]
                start = coordinate.xreplace(dict.fromkeys(loops, sympy.S.Zero))
                offsets[dim] = self._size(start)
        return offsets

    def _resolved(self, access: Access, arg: TensorArg) -> MemoryBoxes | None:
        (shape, strides), offsets = self._device_shapes[access.arg], self._offsets_of(arg)
        if access.boxes is None:
            if offsets:
                raise UnsupportedError("an offset known at launch in an irregular access")
            return None
        boxes: list[MemoryBox] = []
        total: Size = 0
        for box in access.boxes:
            stride = strides[box.dim]
            has_step = any(factor != 1 for _, factor in box.sum.terms)
            if (box.is_stick and box.dim in offsets) or (isinstance(stride, Extent) and has_step):
                raise UnsupportedError("a step or an offset known at launch along sticks")
            start: Size = offsets.get(box.dim, box.sum.constant)
            within = 0
            if box.is_stick:
                start, within = divmod(box.sum.constant, box.stick)
            total = self._sum(total, self._product(start, stride))
            constant = replace(box.sum, constant=within)
            size = box.size if box.is_lane else shape[box.dim]
            boxes.append(MemoryBox(constant, stride, size, box.stick))
        return MemoryBoxes(tuple(boxes), total)
