"""Emits KTIR ops on tiles, one method for each. Views cost nothing.

Dims of tiles are integers, or extents that are known when the kernel runs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isinf
from weakref import WeakKeyDictionary

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import BroadcastOp, GenericOp, ReduceOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from torch_spyre._inductor.to_ktir.extents import (
    Extent,
    Shape,
    Size,
    as_operands,
    dynamic,
    known,
    static,
)
from torch_spyre._inductor.to_ktir.indices import Index, IndexArithmetic
from torch_spyre._inductor.to_ktir.types import F16, F32, tensor_type
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import LoadOp, StoreOp
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType
from torch_spyre.ktir.dialects.ktdp.views import ConstructMemoryViewOp, full_box
from torch_spyre.ktir.dialects.tensor import ExpandShapeOp

# f16 literals in the text of KTIR are IEEE half floats. The range of the card's format is larger:
# an epsilon of 1e-8 would become 0. Its precision is lower: an inexact literal would be rounded
# twice. Other values than those of both formats are truncated from f32 literals.
_F16_LITERAL_RANGE = (2.0**-14, 65504.0)


# The shapes of tensors with dims that are known at run time: their types say `?`.
_dynamic_shapes: WeakKeyDictionary[SSAValue, Shape] = WeakKeyDictionary()


def shape_of(value: SSAValue) -> Shape:
    shape: Shape = value.type.get_shape()  # type: ignore[attr-defined]  # callers hold tensors
    return _dynamic_shapes[value] if DYNAMIC_INDEX in shape else shape


def static_shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return a shape; raise UnsupportedError if a dim is known only at run time."""
    return tuple(map(known, shape_of(value)))


def with_shape(value: SSAValue, shape: Shape) -> SSAValue:
    """Return a tensor whose dims have these sizes; its type may not state all of them."""
    if any(isinstance(size, Extent) for size in shape):
        _dynamic_shapes[value] = shape
    return value


def _copy_shapes(sources: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    for source, value in zip(sources, values, strict=True):
        if source in _dynamic_shapes:
            _dynamic_shapes[value] = _dynamic_shapes[source]


def element_of(value: SSAValue) -> Attribute:
    element: Attribute = value.type.element_type  # type: ignore[attr-defined]  # as in shape_of
    return element


def _constant(value: float | int | bool, element: Attribute) -> list[Operation]:
    """Return the ops of a constant; the last one has the value."""
    if not isinstance(element, AnyFloat):
        assert isinstance(element, IntegerType)
        return [arith.ConstantOp(IntegerAttr(int(value), element))]
    value = float(value)
    minimum, maximum = _F16_LITERAL_RANGE
    is_exact = minimum <= abs(value) <= maximum and FloatAttr(value, F16).value.data == value
    if element != F16 or value == 0 or is_exact or isinf(value):
        return [arith.ConstantOp(FloatAttr(value, element))]
    exact = arith.ConstantOp(FloatAttr(value, F32))
    return [exact, arith.TruncFOp(exact.result, element)]


class Emitter:
    """Appends ops to the current block of a function."""

    def __init__(self, entry: Block) -> None:
        self.indices = IndexArithmetic(entry)
        self._views: dict[object, SSAValue] = {}
        self._scalars: dict[object, SSAValue] = {}

    def add(self, operation: Operation) -> SSAValue:
        """Append an op and return its first result.

        A result with sizes known at run time has the shape of the first operand of its rank, as
        elementwise ops do.
        """
        result = self.indices.add_op(operation)
        if isinstance(result.type, TensorType) and DYNAMIC_INDEX in result.type.get_shape():
            rank = result.type.get_num_dims()
            for operand in operation.operands:
                if operand in _dynamic_shapes and len(_dynamic_shapes[operand]) == rank:
                    return with_shape(result, _dynamic_shapes[operand])
        return result

    def add_with_shape(self, operation: Operation, shape: Shape) -> SSAValue:
        """Append an op whose first result is a tensor of this shape."""
        return with_shape(self.indices.add_op(operation), shape)

    @contextmanager
    def at(self, location: LocationAttr | None) -> Iterator[None]:
        """Emit ops at a location."""
        enclosing, self.indices.location = self.indices.location, location
        try:
            yield
        finally:
            self.indices.location = enclosing

    # Memory

    def view(
        self, base: SSAValue, offset: Size, sizes: Shape, strides: Shape, element: Attribute
    ) -> SSAValue:
        """Return a memory view; equal ones are emitted once, at the start of the function."""
        key = (base, offset, sizes, strides, element)
        if key not in self._views:
            address = base if offset == 0 else self._entry_sum(base, offset)
            view_type = MemRefType(element, static(sizes))
            operation = ConstructMemoryViewOp(
                address, as_operands(sizes), as_operands(strides), view_type
            )
            self._add_at_entry(operation)
            self._views[key] = operation.result
        return self._views[key]

    def _entry_sum(self, base: SSAValue, offset: Size) -> SSAValue:
        added = offset.value if isinstance(offset, Extent) else self.indices.constant(offset)
        operation = arith.AddiOp(base, added)
        self._add_at_entry(operation)
        return operation.result

    def _add_at_entry(self, operation: Operation) -> None:
        """Insert an op before the body of the entry block, after the constants it may need."""
        self.indices.locate(operation)
        anchor = self._entry_anchor
        if anchor is None:
            self.indices.entry.add_op(operation)
        else:
            self.indices.entry.insert_op_before(operation, anchor)

    _entry_anchor: Operation | None = None

    def begin_body(self, anchor: Operation) -> None:
        """Emit the ops from now on after `anchor`; views and constants still go before it."""
        self._entry_anchor = anchor

    def load(self, view: SSAValue, origins: Sequence[Index], sizes: Shape) -> SSAValue:
        tile = self._tile(view, origins, sizes)
        return self.add_with_shape(LoadOp(tile, tensor_type(element_of(view), sizes)), sizes)

    def store(self, value: SSAValue, view: SSAValue, origins: Sequence[Index]) -> None:
        tile = self._tile(view, origins, shape_of(value))
        self.indices.append(StoreOp(value, tile))

    def _tile(self, view: SSAValue, origins: Sequence[Index], sizes: Shape) -> SSAValue:
        values = [self.indices.value(origin) for origin in origins]
        shape = static(sizes)
        return self.add(
            ConstructAccessTileOp(
                view, values, full_box(shape), AccessTileType(shape), symbols=dynamic(sizes)
            )
        )

    # Scalars and constants

    def scalar(self, value: float | int | bool, element: Attribute) -> SSAValue:
        """Return a constant; equal ones are emitted once, at the start of the function."""
        key = (repr(value), element)
        if key not in self._scalars:
            operations = _constant(value, element)
            first = self.indices.entry.first_op
            if first is None:
                self.indices.entry.add_ops(operations)
            else:
                self.indices.entry.insert_ops_before(operations, first)
            self._scalars[key] = operations[-1].results[0]
        return self._scalars[key]

    def splat(self, scalar: SSAValue, shape: Shape) -> SSAValue:
        operation = tensor.SplatOp(scalar, dynamic(shape), tensor_type(scalar.type, shape))
        return self.add_with_shape(operation, shape)

    def empty(self, element: Attribute, shape: Shape) -> SSAValue:
        operation = tensor.EmptyOp(dynamic(shape), tensor_type(element, shape))
        return self.add_with_shape(operation, shape)

    # Views of tensors

    def broadcast(self, value: SSAValue, shape: Shape, new_dims: Sequence[int]) -> SSAValue:
        if not new_dims:
            return value
        target = self.empty(element_of(value), shape)
        dims = DenseArrayBase.from_list(i64, new_dims)
        return self.add_with_shape(BroadcastOp(value, target, dims, target.type), shape)

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        if list(order) == list(range(len(order))):
            return value
        shape = shape_of(value)
        transposed = tuple(shape[dim] for dim in order)
        target = self.empty(element_of(value), transposed)
        permutation = DenseArrayBase.from_list(i64, order)
        return self.add_with_shape(TransposeOp(value, target, permutation, target.type), transposed)

    def slice(
        self,
        value: SSAValue,
        offsets: Sequence[int],
        sizes: Shape,
        strides: Sequence[int] | None = None,
    ) -> SSAValue:
        steps = strides or (1,) * len(sizes)
        if sizes == shape_of(value):
            return value
        result = tensor_type(element_of(value), sizes)
        operation = tensor.ExtractSliceOp(value, offsets, as_operands(sizes), steps, result)
        return self.add_with_shape(operation, sizes)

    def insert(
        self,
        value: SSAValue,
        into: SSAValue,
        offsets: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> SSAValue:
        sizes = shape_of(value)
        operation = tensor.InsertSliceOp.get(
            value,
            into,
            static(sizes),
            static_offsets=offsets,
            static_strides=strides or (1,) * len(offsets),
            sizes=dynamic(sizes),
        )
        return self.add_with_shape(operation, shape_of(into))

    def reshape(self, value: SSAValue, groups: Sequence[Sequence[int]], shape: Shape) -> SSAValue:
        """Emit a collapse of each group of dims to one, or an expansion of each dim to a group."""
        if shape == shape_of(value):
            return value
        reassociation = ArrayAttr(
            [ArrayAttr([IntegerAttr(dim, i64) for dim in group]) for group in groups]
        )
        result = tensor_type(element_of(value), shape)
        if len(shape) < len(shape_of(value)):
            operation: Operation = tensor.CollapseShapeOp.build(
                operands=[value],
                result_types=[result],
                properties={"reassociation": reassociation},
            )
        else:
            operation = ExpandShapeOp(value, as_operands(shape), reassociation, result)
        return self.add_with_shape(operation, shape)

    # Arithmetic

    def generic(
        self, scalar_op: Callable[..., Operation], operands: Sequence[SSAValue]
    ) -> SSAValue:
        """Emit an op that exists on scalars only, applied to each element."""
        shape, element = shape_of(operands[0]), element_of(operands[0])
        target = self.empty(element, shape)
        block = Block(arg_types=[*(element_of(operand) for operand in operands), element])
        operation = scalar_op(*block.args[:-1])
        block.add_ops([operation, YieldOp(operation.results[0])])
        identity = AffineMapAttr(AffineMap.identity(len(shape)))
        return self.add(
            GenericOp(
                operands,
                [target],
                Region(block),
                [identity] * (len(operands) + 1),
                [IteratorTypeAttr.parallel()] * len(shape),
                [target.type],
            )
        )

    def reduce(
        self,
        value: SSAValue,
        initial: SSAValue,
        dims: Sequence[int],
        combine: Callable[[SSAValue, SSAValue], Operation],
    ) -> SSAValue:
        """Emit a reduction of dims; `combine` accepts an element and the accumulator."""
        element = element_of(value)
        block = Block(arg_types=[element, element])
        operation = combine(*block.args)
        block.add_ops([operation, YieldOp(operation.results[0])])
        dimensions = DenseArrayBase.from_list(i64, dims)
        operation = ReduceOp(value, initial, dimensions, Region(block))
        return self.add_with_shape(operation, shape_of(initial))

    # Control flow

    def loop(
        self,
        trips: int,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Emit a loop and return its results; a single iteration needs no loop.

        `body` accepts the index, a multiple of `step`, and the values of the previous iteration.
        """
        if trips == 1:
            return list(body(Index(0), carried))
        return self.loop_between(Index(0), Index(trips * step), step, carried, body)

    def loop_between(
        self,
        lower: Index,
        upper: Index,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Emit a loop from `lower`, a multiple of `step`, to below `upper`."""
        enclosing = self.indices.block
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        self.indices.block = block
        variable, *values = block.args
        _copy_shapes(carried, values)
        yielded = body(Index(0, variable, step), values)
        block.add_op(scf.YieldOp(*yielded))
        self.indices.block = enclosing
        start, end = (self.indices.value(bound) for bound in (lower, upper))
        operation = scf.ForOp(start, end, self.indices.constant(step), carried, block)
        self.indices.append(operation)
        _copy_shapes(carried, operation.results)
        return list(operation.results)

    def choose(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Emit two alternatives with results of the same types; return the results."""
        enclosing = self.indices.block
        blocks = (Block(), Block())
        for body, block in zip((then, otherwise), blocks, strict=True):
            self.indices.block = block
            yielded = body()
            block.add_op(scf.YieldOp(*yielded))
        self.indices.block = enclosing
        regions = [Region(block) for block in blocks]
        types = [value.type for value in yielded]
        operation = scf.IfOp(condition, types, regions[0], regions[1])
        self.indices.append(operation)
        return list(operation.results)

    def branch(self, condition: SSAValue, body: Callable[[], None]) -> None:
        """Emit ops that are executed only if the condition holds, without results."""
        enclosing = self.indices.block
        block = Block()
        self.indices.block = block
        body()
        block.add_op(scf.YieldOp())
        self.indices.block = enclosing
        self.indices.append(scf.IfOp(condition, [], Region(block)))
