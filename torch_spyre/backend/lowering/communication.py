"""Lowers communication between cores: `ktdp.inter_tile_*`.

A produce publishes this core's tiles on a channel; a delivery receives tiles of other cores. The
sets of the ops determine the senders of every core: they become tables with one list per core.
Cores are visited in ascending order, so all consumers of a reduction compute the same bits.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineSet

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.dispatch import lower_block
from torch_spyre.backend.lowering.nodes import (
    EndDelivery,
    For,
    If,
    Node,
    Plain,
    PublishTiles,
    ReceiveTile,
)
from torch_spyre.backend.lowering.tile_exchange import TileExchange
from torch_spyre.backend.lowering.values import (
    Buffer,
    Tensor,
    TensorView,
    reshaped,
)
from torch_spyre.backend.program.instructions import (
    CORE_REGISTER,
    NO_REGISTER,
    DeliveryKind,
    ElementType,
    TableLookup,
)
from torch_spyre.ktir.affine import contains, points
from torch_spyre.ktir.dialects.ktdp.collectives import (
    InterTileAllToAllOp,
    InterTileGatherOp,
    InterTileReduceScatterOp,
    InterTileScatterOp,
)
from torch_spyre.ktir.dialects.ktdp.delivery import DeliveryOperation, ReductionOperation
from torch_spyre.ktir.dialects.ktdp.inter_tile import (
    InterTileConsumeOp,
    InterTileProduceOp,
    InterTileReduceOp,
)

_KINDS: dict[type[DeliveryOperation], DeliveryKind] = {
    InterTileConsumeOp: DeliveryKind.CONSUME,
    InterTileReduceOp: DeliveryKind.REDUCE,
    InterTileReduceScatterOp: DeliveryKind.REDUCE_SCATTER,
    InterTileGatherOp: DeliveryKind.GATHER,
    InterTileAllToAllOp: DeliveryKind.ALL_TO_ALL,
    InterTileScatterOp: DeliveryKind.SCATTER,
}


@dataclass(frozen=True)
class Channel:
    """The lowered form of a future: a channel, and the tiles that are published on it."""

    number: int
    tiles: tuple[TensorView, ...]


def lower_produce(kernel: KernelContext, operation: InterTileProduceOp) -> None:
    groups = [int(group[0]) for group in points(operation.future.type.groups)]
    producers = operation.producer_tiles_per_group.data
    group_of = [NO_REGISTER] * kernel.cores
    for group in groups:
        for core in _cores_in(producers, kernel.cores, [group]):
            group_of[core] = group
    channel = kernel.channels
    kernel.channels += 1
    table = _table_index(kernel, [() if group < 0 else (group,) for group in group_of])
    body: list[Node] = []
    location = kernel.location
    with kernel.region(body):
        group = _table_entry(kernel, table, kernel.constant(0))
        kernel.scalars[operation.body.block.args[0]] = group
        lower_block(kernel, operation.body.block)
        kernel.location = location
        terminator = operation.body.block.last_op
        assert terminator is not None
        tiles = tuple(_packed(kernel, value) for value in terminator.operands)
        kernel.add(PublishTiles(location, channel, tiles))
    if all(group >= 0 for group in group_of):
        kernel.nodes.extend(body)
    else:
        produces = _list_length(kernel, table)
        kernel.add(If(location, _is_positive(kernel, produces), body))
    kernel.tiles[operation.future] = Channel(channel, tiles)


def _packed(kernel: KernelContext, value: SSAValue) -> TensorView:
    """Return the tensor as the only content of a buffer, contiguous, as the ring transfers it."""
    tensor = kernel.to_buffer(kernel.tensor(value), value)
    if tensor.is_whole:
        return tensor
    packed = kernel.allocate(tensor.type, tensor.extents, value)
    kernel.write(tensor, packed)
    return packed


def lower_delivery(kernel: KernelContext, operation: DeliveryOperation) -> None:
    produce = operation.future.owner
    channel = kernel.tiles.get(operation.future)
    if not isinstance(produce, InterTileProduceOp) or not isinstance(channel, Channel):
        raise kernel.error("the future must come from ktdp.inter_tile_produce in this function")
    sources, ranks, consumers = _routes(kernel, operation, produce)
    results = tuple(
        kernel.allocate(kernel.element_type(value.type), kernel.extents_of(value.type), value)
        for value in operation.delivered
    )
    for value, result in zip(operation.delivered, results, strict=True):
        kernel.tensors[value] = result
    table = _table_index(kernel, sources)
    kind = _KINDS[type(operation)]
    body: list[Node] = []
    location = kernel.location
    with kernel.region(body):
        match operation:
            case ReductionOperation():
                _reduce(kernel, operation, channel, table, ranks, consumers, results)
            case _:
                _receive_slices(
                    kernel, operation, channel, table, ranks, consumers, sources, results
                )
        kernel.location = location
    if all(sources) or all(rank for rank in ranks):
        kernel.nodes.extend(body)
    else:
        num_ranks = _list_length(kernel, _table_index(kernel, ranks))
        kernel.add(If(location, _is_positive(kernel, num_ranks), body, [], _buffers(results)))
    tile_bytes = sum(tile.buffer.bytes for tile in channel.tiles)
    cores = _largest_group(sources)
    kernel.add(EndDelivery(location, channel.number, kind, cores, tile_bytes))


def _buffers(results: tuple[TensorView, ...]) -> list[Buffer]:
    return [result.buffer for result in results]


def _largest_group(sources: list[tuple[int, ...]]) -> int:
    """Return the most cores that one tile passes or one result comes from, for the timing model."""
    reached: dict[int, set[int]] = {}
    largest = 1
    for consumer, senders in enumerate(sources):
        largest = max(largest, len({consumer, *senders}) if senders else 1)
        for sender in senders:
            reached.setdefault(sender, {sender}).add(consumer)
    return max([largest, *map(len, reached.values())])


def _routes(
    kernel: KernelContext, operation: DeliveryOperation, produce: InterTileProduceOp
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], int]:
    """Return per core its senders and its rank among the consumers, and the largest consumer count.

    The rank of a core that is not a consumer is an empty tuple.
    """
    sources: list[tuple[int, ...]] = [()] * kernel.cores
    ranks: list[tuple[int, ...]] = [()] * kernel.cores
    max_consumers = 1
    for group in (int(point[0]) for point in points(operation.future_type.groups)):
        producers = _cores_in(produce.producer_tiles_per_group.data, kernel.cores, [group])
        consumers = _cores_in(operation.consumer_tiles_per_group.data, kernel.cores, [group])
        max_consumers = max(max_consumers, len(consumers))
        dependency = operation.producer_dependency_per_consumer
        for rank, consumer in enumerate(consumers):
            ranks[consumer] = (rank,)
            sources[consumer] = tuple(producers)
            if dependency is not None:
                sources[consumer] = tuple(
                    _cores_in(dependency.data, kernel.cores, [consumer, group])
                )
    return sources, ranks, max_consumers


def _cores_in(affine_set: AffineSet, num_cores: int, symbols: list[int]) -> list[int]:
    """Return the cores that a set contains, in ascending order."""
    candidates = np.arange(num_cores, dtype=np.int64)[:, None]
    is_member = contains(affine_set, candidates, symbols[: affine_set.num_symbols])
    return [int(core) for core in np.flatnonzero(is_member)]


def _reduce(
    kernel: KernelContext,
    operation: ReductionOperation,
    channel: Channel,
    table: int,
    ranks: list[tuple[int, ...]],
    consumers: int,
    results: tuple[TensorView, ...],
) -> None:
    """Receive a tile from every producer, reduce them, and write this core's slice or all of it."""
    location = kernel.location
    accumulators = tuple(kernel.allocate(tile.type, tile.extents, None) for tile in channel.tiles)
    sources = kernel.tables[table]
    first_tile: list[Node] = []
    with kernel.region(first_tile):
        first = _table_entry(kernel, table, kernel.constant(0))
        for role, accumulator in enumerate(accumulators):
            _receive_tile(kernel, channel, role, first, accumulator)
    if all(sources[core] or not ranks[core] for core in range(kernel.cores)):
        kernel.nodes.extend(first_tile)
    else:
        identity: list[Node] = []
        with kernel.region(identity):
            for value, accumulator in zip(operation.identities, accumulators, strict=True):
                kernel.write(kernel.tensor(value), accumulator)
        has_producers = _is_positive(kernel, _list_length(kernel, table))
        kernel.add(If(location, has_producers, first_tile, identity, _buffers(accumulators)))
    length = _list_length(kernel, table)
    position = kernel.registers.new((0, kernel.cores - 1))
    one = kernel.constant(1)
    loop = For(location, position, one, length, one, [], _buffers(accumulators))
    kernel.add(loop)
    with kernel.region(loop.body):
        producer = _table_entry(kernel, table, position)
        received = tuple(kernel.allocate(tile.type, tile.extents, None) for tile in channel.tiles)
        for role, tile in enumerate(received):
            _receive_tile(kernel, channel, role, producer, tile)
        combined = _combine(kernel, operation.combiner.block, (*accumulators, *received))
        kernel.location = location
        for combined_value, accumulator in zip(combined, accumulators, strict=True):
            kernel.write(combined_value, accumulator)
    if isinstance(operation, InterTileReduceScatterOp):
        axes = operation.axes("scatter_dimensions")
        rank = _table_entry(kernel, _table_index(kernel, ranks), kernel.constant(0))
        for accumulator, result in zip(accumulators, results, strict=True):
            exchange = TileExchange(accumulator, result, split=axes).with_merged_axes(kernel)
            tile_slice = exchange.slice(kernel, consumers, rank)
            kernel.write(tile_slice, exchange.destination(kernel, tile_slice, 1, 0))
    else:
        for accumulator, result in zip(accumulators, results, strict=True):
            kernel.write(reshaped(accumulator, result.extents), result)


def _combine(kernel: KernelContext, block: Block, values: tuple[TensorView, ...]) -> list[Tensor]:
    """Lower the combiner with these arguments; return the tensors that it yields."""
    kernel.tensors.update(zip(block.args, values, strict=True))
    lower_block(kernel, block)
    terminator = block.last_op
    assert terminator is not None
    return [kernel.tensor(value) for value in terminator.operands]


def _receive_slices(
    kernel: KernelContext,
    operation: DeliveryOperation,
    channel: Channel,
    table: int,
    ranks: list[tuple[int, ...]],
    consumers: int,
    sources: list[tuple[int, ...]],
    results: tuple[TensorView, ...],
) -> None:
    """Receive the tile of each producer, or this core's slice of it, into the results."""
    split: tuple[int, ...] = ()
    concat: tuple[int, ...] = ()
    match operation:
        case InterTileGatherOp():
            concat = operation.axes("gather_dimensions")
        case InterTileAllToAllOp():
            split = operation.axes("split_dimensions")
            concat = operation.axes("concat_dimensions")
        case InterTileScatterOp():
            split = operation.axes("scatter_dimensions")
    rank = (
        _table_entry(kernel, _table_index(kernel, ranks), kernel.constant(0))
        if split
        else NO_REGISTER
    )
    num_producers = max(map(len, sources), default=0)
    senders = [
        _table_entry(kernel, table, kernel.constant(index)) for index in range(num_producers)
    ]
    for role, (tile, result) in enumerate(zip(channel.tiles, results, strict=True)):
        exchange = TileExchange(tile, result, split, concat).with_merged_axes(kernel)
        tile_slice = exchange.slice(kernel, consumers, rank)
        for position, sender in enumerate(senders):
            kernel.add(
                ReceiveTile(
                    kernel.location,
                    channel.number,
                    role,
                    sender,
                    tile_slice.offset_register,
                    tile_slice.strides,
                    exchange.destination(
                        kernel, tile_slice, num_producers if concat else 1, position
                    ),
                    tile_slice.extents,
                    num_producers == 1,
                )
            )


def _receive_tile(
    kernel: KernelContext, channel: Channel, role: int, producer: int, tile: TensorView
) -> None:
    kernel.add(
        ReceiveTile(
            kernel.location,
            channel.number,
            role,
            producer,
            NO_REGISTER,
            tile.strides,
            tile,
            tile.extents,
            True,
        )
    )


def _table_index(kernel: KernelContext, lists: list[tuple[int, ...]]) -> int:
    """Return the index of the table with these lists, one per core; add it if it is new."""
    table = tuple(lists)
    if table not in kernel.tables:
        kernel.tables.append(table)
    return kernel.tables.index(table)


def _table_entry(kernel: KernelContext, table: int, index: int) -> int:
    """Return a register with entry `index`, a register, of this core's list in a table."""
    position = kernel.registers.constant_value(index)
    lists = kernel.tables[table]
    if position is not None:
        values = {entries[position] for entries in lists if position < len(entries)}
        if len(values) == 1 and all(position < len(entries) for entries in lists):
            return kernel.constant(values.pop())
        if all(entries == (core,) for core, entries in enumerate(lists)):
            return CORE_REGISTER
    destination = kernel.registers.new()
    kernel.add(Plain(kernel.location, TableLookup(kernel.location, destination, table, index)))
    return destination


def _list_length(kernel: KernelContext, table: int) -> int:
    """Return a register with the length of this core's list in a table."""
    lengths = {len(entries) for entries in kernel.tables[table]}
    if len(lengths) == 1:
        return kernel.constant(lengths.pop())
    destination = kernel.registers.new((0, max(lengths)))
    kernel.add(Plain(kernel.location, TableLookup(kernel.location, destination, table)))
    return destination


def _is_positive(kernel: KernelContext, register: int) -> int:
    zero = kernel.constant(0)
    return kernel.compute("cmpi_sgt", ElementType.I64, ElementType.I1, (register, zero))
