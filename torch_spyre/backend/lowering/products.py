"""Matrix products."""

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir.affine import AffineDimExpr, AffineMap

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import with_strides
from torch_spyre.backend.lowering.nodes import Product
from torch_spyre.backend.lowering.values import Extent, Splat, Tensor, TensorView, Undefined


def lower_product(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """`linalg.matmul` and `linalg.batch_matmul`, under whatever maps say how operands lie."""
    maps = [attribute.data for attribute in operation.get_indexing_maps()]
    loops = maps[0].num_dims
    batched = loops == 4
    batch, row, column, inner = (0, 1, 2, 3) if batched else (-1, 0, 1, 2)
    left, right = (kernel.in_memory(kernel.tensor(value)) for value in operation.inputs)
    init = kernel.tensor(operation.outputs[0])
    result = operation.res[0]
    assert isinstance(result.type, TensorType)
    sizes: dict[int, Extent] = {}
    for tensor, indexing in zip((left, right, init), maps, strict=True):
        for dim, extent in zip(_dims(kernel, indexing), tensor.extents, strict=True):
            sizes.setdefault(dim, extent)
    output = kernel.new(kernel.element_type(result.type), init.extents, result)

    def matrix(tensor: TensorView, indexing: AffineMap, rows: int, columns: int) -> TensorView:
        strides = dict(zip(_dims(kernel, indexing), tensor.strides, strict=True))
        return with_strides(tensor, tuple(strides.get(dim, 0) for dim in (batch, rows, columns)))

    initial = None if _is_zero(kernel, init) else kernel.in_memory(init)
    kernel.add(
        Product(
            kernel.place,
            sizes[batch] if batched else kernel.static_extent(1),
            sizes[row],
            sizes[column],
            sizes[inner],
            matrix(left, maps[0], row, inner),
            matrix(right, maps[1], inner, column),
            matrix(initial, maps[2], row, column) if initial is not None else None,
            matrix(output, maps[2], row, column),
        )
    )
    kernel.tensors[result] = output


def _dims(kernel: KernelContext, indexing: AffineMap) -> list[int]:
    dims = []
    for expression in indexing.results:
        if not isinstance(expression, AffineDimExpr):
            raise kernel.error(f"a product indexed by {expression}")
        dims.append(expression.position)
    return dims


def _is_zero(kernel: KernelContext, init: Tensor) -> bool:
    match init:
        case Undefined():
            return True
        case Splat():
            return kernel.number(init.register) == 0
    return False
