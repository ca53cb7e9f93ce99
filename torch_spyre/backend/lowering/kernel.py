"""Compiles a KTIR function to the content of a program, and registers the lowerings of all ops."""

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
    indexed,
    matmul,
    reductions,
    scratchpad_allocation,
    shapes,
    sorting,
    transfers,
    views,
)
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.dispatch import FALLBACKS, HANDLERS, lower_block
from torch_spyre.backend.lowering.emission import Emitter
from torch_spyre.backend.lowering.registers import Registers
from torch_spyre.backend.program.instructions import (
    CORE_X,
    CORE_Y,
    CORE_Z,
    Argument,
    FixedBuffer,
    ProgramContent,
)
from torch_spyre.cards import CardDescription
from torch_spyre.errors import KtirError, ScratchpadOverflowError
from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp
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
from torch_spyre.ktir.dialects.spyreop import IndexToAddressOp, SortOp
from torch_spyre.ktir.dialects.tensor import ExpandShapeOp, GenerateOp
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
    checks_bounds: bool = False,
    optimises: bool = True,
) -> ProgramContent:
    """Return the program of a function.

    `names` are the names of its arguments; scalars in `known` are compiled in as constants. With
    `checks_bounds`, the program raises for every access outside its view. Without `optimises`, no
    ops are fused, no copies are removed, and no buffers share an address.
    """
    name = function.sym_name.data
    kernel = KernelContext(source, grid, Registers(grid), checks_bounds=checks_bounds)
    bound = _lower(kernel, function, names, card, known, arrays)
    nodes = [*kernel.prologue, *kernel.nodes]
    capacity = card.compute.lx_bytes
    if optimises:
        nodes = coalescing.coalesce(fusion.fuse(nodes))
        allocation = scratchpad_allocation.allocate(nodes, capacity)
    else:
        allocation = scratchpad_allocation.allocate_separately(nodes)
    if allocation.peak > capacity:
        peak_values = [(buffer.name, buffer.bytes) for buffer in allocation.peak_buffers]
        raise ScratchpadOverflowError(name, allocation.peak, capacity, peak_values)
    emitter = Emitter(allocation.addresses)
    emitter.region(nodes)
    return ProgramContent(
        name,
        grid,
        kernel.registers.count,
        kernel.registers.constants(),
        bound,
        _merged(kernel.fixed_buffers),
        allocation.peak,
        kernel.channels,
        tuple(kernel.tables),
        tuple(kernel.locations),
        tuple(emitter.code),
    )


def array_sizes(
    function: FuncOp,
    names: list[str],
    grid: tuple[int, int, int],
    source: Source | None,
    card: CardDescription,
    *,
    known: Mapping[str, arguments.Scalar],
) -> dict[str, int | None]:
    """Return for each array how many elements its views cover; None if that has no bound."""
    kernel = KernelContext(source, grid, Registers(grid))
    bound = _lower(kernel, function, names, card, known, None)
    values = dict(zip(names, function.args, strict=True))
    sizes: dict[str, int | None] = {}
    for name in (argument.name for argument in bound if argument.is_array):
        views = arguments.views_on(values[name], False)
        ends = [kernel.view_ends.get(view.result) for view in views]
        known_ends = [end for end in ends if end is not None]
        # Views of branches that are not taken have no end.
        lowered = [view for view in views if view.result in kernel.views]
        sizes[name] = max(known_ends, default=0) if len(known_ends) == len(lowered) else None
    return sizes


def _lower(
    kernel: KernelContext,
    function: FuncOp,
    names: list[str],
    card: CardDescription,
    known: Mapping[str, arguments.Scalar],
    arrays: frozenset[str] | None,
) -> tuple[Argument, ...]:
    """Append the nodes of a function to the kernel; return the arguments of its program."""
    kernel.set_location(function)
    if not function.body.blocks:
        raise KtirError(f"function {function.sym_name.data} has no body")
    if kernel.cores > card.compute.cores:
        raise kernel.error(
            f"a grid of {kernel.cores} cores; the card has {card.compute.cores}. Use a smaller grid"
        )
    bound = arguments.bind_arguments(kernel, function, names, known, arrays)
    lower_block(kernel, function.body.block)
    return bound


def _merged(buffers: list[FixedBuffer]) -> tuple[FixedBuffer, ...]:
    """Return the buffers with overlapping ones merged; the first one's name is retained."""
    merged: list[FixedBuffer] = []
    for buffer in sorted(buffers, key=lambda buffer: (buffer.address, -buffer.bytes)):
        last = merged[-1] if merged else None
        if last is None or buffer.address >= last.address + last.bytes:
            merged.append(buffer)
            continue
        end = max(last.address + last.bytes, buffer.address + buffer.bytes)
        if end > last.address + last.bytes:
            size = end - last.address
            merged[-1] = FixedBuffer(
                last.name, last.address, size, last.type, (size // last.type.bytes,)
            )
    return tuple(merged)


def _lower_tile_id(kernel: KernelContext, operation: GetComputeTileIdOp) -> None:
    kernel.scalars.update(zip(operation.ids, (CORE_X, CORE_Y, CORE_Z), strict=False))


def _lower_runtime_argument(kernel: KernelContext, operation: RuntimeArgExtractOp) -> None:
    declared = operation.argument.type
    assert isinstance(declared, RuntimeArgType)
    match operation.kind.data:
        case ExtractKind.VALUE:
            register = kernel.scalar(operation.argument)
        case ExtractKind.GRANULARITY:
            assert declared.granularity is not None, "the verifier requires it"
            register = kernel.constant(declared.granularity)
        case ExtractKind.UPPERBOUND:
            assert declared.upperbound is not None, "the verifier requires it"
            register = kernel.constant(declared.upperbound)
    kernel.scalars[operation.result] = register


def _lower_structured(kernel: KernelContext, operation: Operation) -> bool:
    """Lower `linalg.generic` and the named ops of `linalg`; return False for any other op."""
    if not isinstance(operation, LinalgStructuredOperation):
        return False
    if not operation.res:
        raise kernel.error("the op must work on tensors, not on memrefs")
    if reductions.is_reduction(operation):
        if not matmul.lower_matmul(kernel, operation):
            reductions.lower_structured_reduction(kernel, operation)
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
    SortOp: sorting.lower_sort,
    FillOp: elementwise.lower_fill,
    GatherOp: indexed.lower_gather,
    ScatterOp: indexed.lower_scatter,
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
