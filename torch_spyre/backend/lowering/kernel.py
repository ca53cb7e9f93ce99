"""The way of a function from KTIR to a program."""

from collections.abc import Mapping

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import (
    BroadcastOp,
    FillOp,
    ReduceOp,
    TransposeOp,
)
from xdsl.ir import Operation

from torch_spyre.backend.lowering import (
    arguments,
    coalescing,
    communication,
    constants,
    control,
    elementwise,
    fusion,
    placement,
    products,
    reductions,
    shapes,
    transfers,
    views,
)
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.emission import Emitter
from torch_spyre.backend.lowering.registers import Registers
from torch_spyre.backend.lowering.walk import FALLBACKS, HANDLERS, lower_block
from torch_spyre.backend.program.instructions import (
    CORE_X,
    CORE_Y,
    CORE_Z,
    FixedBuffer,
    ProgramContent,
)
from torch_spyre.cards import CardDescription
from torch_spyre.errors import ScratchpadOverflowError
from torch_spyre.ktir.dialects.ktdp.attributes import ExtractKind
from torch_spyre.ktir.dialects.ktdp.collectives import (
    InterTileAllToAllOp,
    InterTileGatherOp,
    InterTileReduceScatterOp,
    InterTileScatterOp,
)
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.inter_tile import (
    InterTileConsumeOp,
    InterTileProduceOp,
    InterTileReduceOp,
)
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import (
    GetComputeTileIdOp,
    LoadOp,
    RuntimeArgExtractOp,
    StoreOp,
)
from torch_spyre.ktir.dialects.ktdp.types import RuntimeArgType
from torch_spyre.ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryViewOp,
    ConstructMemoryViewOp,
)
from torch_spyre.ktir.dialects.spyreop import IndexToAddressOp
from torch_spyre.ktir.dialects.tensor import ExpandShapeOp, GenerateOp
from torch_spyre.ktir.errors import KtirError
from torch_spyre.ktir.source import Source


def compile_function(
    function: FuncOp,
    names: list[str],
    grid: tuple[int, int, int],
    source: Source | None,
    card: CardDescription,
    *,
    known: Mapping[str, arguments.Scalar],
    arrays: frozenset[str] | None = None,
) -> ProgramContent:
    """A program for the function. `known` scalars are compiled in; `names` are its arguments'."""
    kernel = KernelContext(source, grid, Registers(grid))
    kernel.at(function)
    name = function.sym_name.data
    if not function.body.blocks:
        raise KtirError(f"function {name} has no body")
    if kernel.cores > card.compute.cores:
        raise kernel.error(f"a grid of {kernel.cores} cores; the card has {card.compute.cores}")
    bound = arguments.bind_arguments(kernel, function, names, known, arrays)
    lower_block(kernel, function.body.block)
    nodes = coalescing.coalesce(fusion.fuse([*kernel.prologue, *kernel.nodes]))
    capacity = card.compute.lx_bytes
    placed = placement.place(nodes, capacity)
    if placed.peak > capacity:
        crowd = [(buffer.name, buffer.bytes) for buffer in placed.crowd]
        raise ScratchpadOverflowError(name, placed.peak, capacity, crowd)
    emitter = Emitter(placed.addresses)
    emitter.region(nodes)
    return ProgramContent(
        name,
        grid,
        kernel.registers.count,
        kernel.registers.constants(),
        bound,
        _joined(kernel.fixed_buffers),
        placed.peak,
        kernel.channels,
        tuple(kernel.tables),
        tuple(kernel.locations),
        tuple(emitter.code),
    )


def _joined(buffers: list[FixedBuffer]) -> tuple[FixedBuffer, ...]:
    """One buffer for views that share memory; the first of them names it."""
    joined: list[FixedBuffer] = []
    for buffer in sorted(buffers, key=lambda found: (found.address, -found.bytes)):
        last = joined[-1] if joined else None
        if last is None or buffer.address >= last.address + last.bytes:
            joined.append(buffer)
            continue
        end = max(last.address + last.bytes, buffer.address + buffer.bytes)
        if end > last.address + last.bytes:
            size = end - last.address
            joined[-1] = FixedBuffer(
                last.name, last.address, size, last.type, (size // last.type.bytes,)
            )
    return tuple(joined)


def _lower_tile_id(kernel: KernelContext, operation: GetComputeTileIdOp) -> None:
    kernel.scalars.update(zip(operation.ids, (CORE_X, CORE_Y, CORE_Z), strict=False))


def _lower_runtime_argument(kernel: KernelContext, operation: RuntimeArgExtractOp) -> None:
    declared = operation.argument.type
    assert isinstance(declared, RuntimeArgType)
    match operation.kind.data:
        case ExtractKind.VALUE:
            register = kernel.scalar(operation.argument)
        case ExtractKind.GRANULARITY:
            assert declared.granularity is not None, "the verifier asks for it"
            register = kernel.constant(declared.granularity)
        case ExtractKind.UPPERBOUND:
            assert declared.upperbound is not None, "the verifier asks for it"
            register = kernel.constant(declared.upperbound)
    kernel.scalars[operation.result] = register


def _lower_structured(kernel: KernelContext, operation: Operation) -> bool:
    """The named ops of `linalg`, which all are loops around a region, and `linalg.generic`."""
    if not isinstance(operation, LinalgStructuredOperation):
        return False
    if not operation.res:
        raise kernel.error("works on tensors only")
    if reductions.is_reduction(operation):
        if not products.lower_product(kernel, operation):
            reductions.lower_reducing(kernel, operation)
    else:
        elementwise.lower_parallel(kernel, operation)
    return True


HANDLERS |= {
    GetComputeTileIdOp: _lower_tile_id,
    RuntimeArgExtractOp: _lower_runtime_argument,
    ConstructMemoryViewOp: views.lower_view,
    ConstructDistributedMemoryViewOp: views.lower_distributed_view,
    ConstructAccessTileOp: views.lower_access_tile,
    ConstructIndirectAccessTileOp: transfers.lower_indirect_tile,
    LoadOp: transfers.lower_load,
    StoreOp: transfers.lower_store,
    InterTileProduceOp: communication.lower_produce,
    InterTileConsumeOp: communication.lower_delivery,
    InterTileReduceOp: communication.lower_delivery,
    InterTileReduceScatterOp: communication.lower_delivery,
    InterTileGatherOp: communication.lower_delivery,
    InterTileAllToAllOp: communication.lower_delivery,
    InterTileScatterOp: communication.lower_delivery,
    arith.ConstantOp: constants.lower_constant,
    IndexToAddressOp: elementwise.lower_index_to_address,
    FillOp: elementwise.lower_fill,
    ReduceOp: reductions.lower_reduce,
    BroadcastOp: shapes.lower_broadcast,
    TransposeOp: shapes.lower_transpose,
    GenerateOp: elementwise.lower_generate,
    ExpandShapeOp: shapes.lower_reshape,
    tensor.CollapseShapeOp: shapes.lower_reshape,
    tensor.ReshapeOp: shapes.lower_reshape,
    tensor.CastOp: shapes.lower_reshape,
    tensor.ConcatOp: shapes.lower_concat,
    tensor.DimOp: shapes.lower_dim,
    tensor.EmptyOp: shapes.lower_empty,
    tensor.ExtractOp: shapes.lower_extract,
    tensor.ExtractSliceOp: shapes.lower_extract_slice,
    tensor.FromElementsOp: shapes.lower_from_elements,
    tensor.InsertOp: shapes.lower_insert,
    tensor.InsertSliceOp: shapes.lower_insert_slice,
    tensor.SplatOp: shapes.lower_splat,
    scf.ForOp: control.lower_for,
    scf.IfOp: control.lower_if,
}
FALLBACKS += [elementwise.lower_vector_op, _lower_structured]
