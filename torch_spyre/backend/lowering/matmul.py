"""Lowers `linalg.matmul`, `linalg.batch_matmul`, and each `linalg.generic` that is a matmul."""

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import with_strides
from torch_spyre.backend.lowering.nodes import Matmul
from torch_spyre.backend.lowering.values import Extent, Splat, Tensor, TensorView, Undefined
from torch_spyre.ktir.dialects.arith import ExtFOp, ExtSIOp


@dataclass(frozen=True)
class _MatmulLoops:
    """The loops of a matmul by role; None for a role without a loop."""

    batch: int | None
    row: int | None
    column: int | None
    inner: int | None


def lower_matmul(kernel: KernelContext, operation: LinalgStructuredOperation) -> bool:
    """Lower a structured op with the body and loops of a matmul; return False for any other op."""
    maps = [attribute.data for attribute in operation.get_indexing_maps()]
    loops = _matmul_loops(maps) if _is_multiply_add(operation) else None
    if loops is None:
        return False
    left, right = (kernel.to_buffer(kernel.tensor(value)) for value in operation.inputs)
    init = kernel.tensor(operation.outputs[0])
    result = operation.res[0]
    assert isinstance(result.type, TensorType)
    sizes: dict[int | None, Extent] = {None: kernel.static_extent(1)}
    for tensor, indexing in zip((left, right, init), maps, strict=True):
        for dim, extent in zip(_dims(indexing), tensor.extents, strict=True):
            sizes.setdefault(dim, extent)
    output = kernel.allocate(kernel.element_type(result.type), init.extents, result)

    def matrix(
        tensor: TensorView, indexing: AffineMap, rows: int | None, columns: int | None
    ) -> TensorView:
        strides: dict[int | None, int] = dict(zip(_dims(indexing), tensor.strides, strict=True))
        dims = (loops.batch, rows, columns)
        return with_strides(tensor, tuple(strides.get(dim, 0) for dim in dims))

    initial = None if _is_zero(kernel, init) else kernel.to_buffer(init)
    kernel.add(
        Matmul(
            kernel.location,
            sizes[loops.batch],
            sizes[loops.row],
            sizes[loops.column],
            sizes[loops.inner],
            matrix(left, maps[0], loops.row, loops.inner),
            matrix(right, maps[1], loops.inner, loops.column),
            matrix(initial, maps[2], loops.row, loops.column) if initial is not None else None,
            matrix(output, maps[2], loops.row, loops.column),
        )
    )
    kernel.tensors[result] = output
    return True


def _matmul_loops(maps: list[AffineMap]) -> _MatmulLoops | None:
    """Return the roles of the loops by the operands that they index; None if this is no matmul."""
    if len(maps) != 3 or not all(_is_projection(indexing) for indexing in maps):
        return None
    in_left, in_right, in_result = (set(_dims(indexing)) for indexing in maps)
    groups = [
        in_left & in_right & in_result,
        (in_left & in_result) - in_right,
        (in_right & in_result) - in_left,
        (in_left & in_right) - in_result,
    ]
    if any(len(group) > 1 for group in groups) or len(set().union(*groups)) != maps[0].num_dims:
        return None
    return _MatmulLoops(*(next(iter(group), None) for group in groups))


def _is_multiply_add(operation: LinalgStructuredOperation) -> bool:
    """Return whether the body is `outs + left * right`, at most with type extensions of these."""
    block = operation.body.block
    terminator = block.last_op
    if len(block.args) != 3 or terminator is None or len(terminator.operands) != 1:
        return False
    left, right, accumulator = block.args
    if not all(isinstance(value.type, TensorType) for value in operation.operands):
        return False
    total = terminator.operands[0].owner
    if not isinstance(total, arith.AddfOp | arith.AddiOp) or accumulator not in total.operands:
        return False
    product = next((value for value in total.operands if value is not accumulator), accumulator)
    multiply = _before_extension(product).owner
    if not isinstance(multiply, arith.MulfOp | arith.MuliOp) or product is not multiply.results[0]:
        return False
    return {_before_extension(value) for value in multiply.operands} == {left, right}


def _before_extension(value: SSAValue) -> SSAValue:
    """Return the operand of a type extension; the value itself if it is not extended."""
    return value.owner.input if isinstance(value.owner, ExtFOp | ExtSIOp) else value


def _is_projection(indexing: AffineMap) -> bool:
    dims = _dims(indexing)
    return len(dims) == len(indexing.results) == len(set(dims))


def _dims(indexing: AffineMap) -> list[int]:
    return [expr.position for expr in indexing.results if isinstance(expr, AffineDimExpr)]


def _is_zero(kernel: KernelContext, init: Tensor) -> bool:
    match init:
        case Undefined():
            return True
        case Splat():
            return kernel.constant_bits(init.register) == 0
    return False
