"""Messages between cores: `ktdp.inter_tile_*`.

A produce publishes this core's tiles on a channel; a delivery receives from other cores what it is
made of. Who sends to whom is known from the sets: it goes into tables, one list per core. Cores
are taken in ascending order everywhere, so every consumer of a reduction gets the same bits.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineSet

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import (
    EndDelivery,
    For,
    If,
    Node,
    Plain,
    PublishTiles,
    ReceiveTile,
)
from torch_spyre.backend.lowering.shares import Sharing
from torch_spyre.backend.lowering.values import (
    Buffer,
    Tensor,
    TensorView,
    reshaped,
)
from torch_spyre.backend.lowering.walk import lower_block
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
    """What a future is: a channel, and the shapes of what is published on it."""

    number: int
    tiles: tuple[TensorView, ...]


def lower_produce(kernel: KernelContext, operation: InterTileProduceOp) -> None:
    groups = [int(group[0]) for group in points(operation.future.type.groups)]
    producers = operation.producer_tiles_per_group.data
    group_of = [NO_REGISTER] * kernel.cores
    for group in groups:
        for core in _members(producers, kernel.cores, [group]):
            group_of[core] = group
    channel = kernel.channels
    kernel.channels += 1
    table = _table(kernel, [() if group < 0 else (group,) for group in group_of])
    body: list[Node] = []
    location = kernel.location
    with kernel.region(body):
        group = _entry(kernel, table, kernel.constant(0))
        kernel.scalars[operation.body.block.args[0]] = group
        lower_block(kernel, operation.body.block)
        kernel.location = location
        terminator = operation.body.block.last_op
        assert terminator is not None
        tiles = tuple(_whole(kernel, value) for value in terminator.operands)
        kernel.add(PublishTiles(location, channel, tiles))
    if all(group >= 0 for group in group_of):
        kernel.nodes.extend(body)
    else:
        produces = _length(kernel, table)
        kernel.add(If(location, _is_positive(kernel, produces), body))
    kernel.tiles[operation.future] = Channel(channel, tiles)


def _whole(kernel: KernelContext, value: SSAValue) -> TensorView:
    """The tensor alone in a buffer, as it goes over the ring."""
    tensor = kernel.in_memory(kernel.tensor(value), value)
    if tensor.is_whole:
        return tensor
    packed = kernel.new(tensor.type, tensor.extents, value)
    kernel.write(tensor, packed)
    return packed


def lower_delivery(kernel: KernelContext, operation: DeliveryOperation) -> None:
    produce = operation.future.owner
    channel = kernel.tiles.get(operation.future)
    if not isinstance(produce, InterTileProduceOp) or not isinstance(channel, Channel):
        raise kernel.error("the future must come from ktdp.inter_tile_produce in this function")
    sources, ranks, consumers = _routes(kernel, operation, produce)
    results = tuple(
        kernel.new(kernel.element_type(found.type), kernel.shape_of(found.type), found)
        for found in operation.delivered
    )
    for found, result in zip(operation.delivered, results, strict=True):
        kernel.tensors[found] = result
    table = _table(kernel, sources)
    kind = _KINDS[type(operation)]
    body: list[Node] = []
    location = kernel.location
    with kernel.region(body):
        match operation:
            case ReductionOperation():
                _fold(kernel, operation, channel, table, ranks, consumers, results)
            case _:
                _collect(kernel, operation, channel, table, ranks, consumers, sources, results)
        kernel.location = location
    if all(sources) or all(rank for rank in ranks):
        kernel.nodes.extend(body)
    else:
        takes_part = _length(kernel, _table(kernel, ranks))
        kernel.add(If(location, _is_positive(kernel, takes_part), body, [], _buffers(results)))
    tile_bytes = sum(tile.buffer.bytes for tile in channel.tiles)
    kernel.add(EndDelivery(location, channel.number, kind, kernel.cores, tile_bytes))


def _buffers(results: tuple[TensorView, ...]) -> list[Buffer]:
    return [result.buffer for result in results]


def _routes(
    kernel: KernelContext, operation: DeliveryOperation, produce: InterTileProduceOp
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], int]:
    """Per core: whom it receives from, and its rank among the consumers (empty: it is none)."""
    sources: list[tuple[int, ...]] = [()] * kernel.cores
    ranks: list[tuple[int, ...]] = [()] * kernel.cores
    most = 1
    for group in (int(found[0]) for found in points(operation.future_type.groups)):
        producers = _members(produce.producer_tiles_per_group.data, kernel.cores, [group])
        consumers = _members(operation.consumer_tiles_per_group.data, kernel.cores, [group])
        most = max(most, len(consumers))
        dependency = operation.producer_dependency_per_consumer
        for rank, consumer in enumerate(consumers):
            ranks[consumer] = (rank,)
            sources[consumer] = tuple(producers)
            if dependency is not None:
                sources[consumer] = tuple(
                    _members(dependency.data, kernel.cores, [consumer, group])
                )
    return sources, ranks, most


def _members(found: AffineSet, cores: int, symbols: list[int]) -> list[int]:
    candidates = np.arange(cores, dtype=np.int64)[:, None]
    held = contains(found, candidates, symbols[: found.num_symbols])
    return [int(core) for core in np.flatnonzero(held)]


def _fold(
    kernel: KernelContext,
    operation: ReductionOperation,
    channel: Channel,
    table: int,
    ranks: list[tuple[int, ...]],
    consumers: int,
    results: tuple[TensorView, ...],
) -> None:
    location = kernel.location
    accumulators = tuple(kernel.new(tile.type, tile.extents, None) for tile in channel.tiles)
    sources = kernel.tables[table]
    seeds: list[Node] = []
    with kernel.region(seeds):
        first = _entry(kernel, table, kernel.constant(0))
        for role, accumulator in enumerate(accumulators):
            _receive_whole(kernel, channel, role, first, accumulator)
    if all(sources[core] or not ranks[core] for core in range(kernel.cores)):
        kernel.nodes.extend(seeds)
    else:
        identity: list[Node] = []
        with kernel.region(identity):
            for value, accumulator in zip(operation.identities, accumulators, strict=True):
                kernel.write(kernel.tensor(value), accumulator)
        some = _is_positive(kernel, _length(kernel, table))
        kernel.add(If(location, some, seeds, identity, _buffers(accumulators)))
    length = _length(kernel, table)
    position = kernel.registers.new((0, kernel.cores - 1))
    one = kernel.constant(1)
    loop = For(location, position, one, length, one, [], _buffers(accumulators))
    kernel.add(loop)
    with kernel.region(loop.body):
        producer = _entry(kernel, table, position)
        received = tuple(kernel.new(tile.type, tile.extents, None) for tile in channel.tiles)
        for role, tile in enumerate(received):
            _receive_whole(kernel, channel, role, producer, tile)
        combined = _combine(kernel, operation.combiner.block, (*accumulators, *received))
        kernel.location = location
        for found, accumulator in zip(combined, accumulators, strict=True):
            kernel.write(found, accumulator)
    if isinstance(operation, InterTileReduceScatterOp):
        axes = operation.axes("scatter_dimensions")
        rank = _entry(kernel, _table(kernel, ranks), kernel.constant(0))
        for accumulator, result in zip(accumulators, results, strict=True):
            sharing = Sharing(accumulator, result, split=axes).joined(kernel)
            share = sharing.share(kernel, consumers, rank)
            kernel.write(share, sharing.target(kernel, share, 1, 0))
    else:
        for accumulator, result in zip(accumulators, results, strict=True):
            kernel.write(reshaped(accumulator, result.extents), result)


def _combine(kernel: KernelContext, block: Block, values: tuple[TensorView, ...]) -> list[Tensor]:
    kernel.tensors.update(zip(block.args, values, strict=True))
    lower_block(kernel, block)
    terminator = block.last_op
    assert terminator is not None
    return [kernel.tensor(value) for value in terminator.operands]


def _collect(
    kernel: KernelContext,
    operation: DeliveryOperation,
    channel: Channel,
    table: int,
    ranks: list[tuple[int, ...]],
    consumers: int,
    sources: list[tuple[int, ...]],
    results: tuple[TensorView, ...],
) -> None:
    """Puts what each producer sends, or this core's share of it, in its place."""
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
    rank = _entry(kernel, _table(kernel, ranks), kernel.constant(0)) if split else NO_REGISTER
    producers = max((len(found) for found in sources), default=0)
    senders = [_entry(kernel, table, kernel.constant(number)) for number in range(producers)]
    for role, (tile, result) in enumerate(zip(channel.tiles, results, strict=True)):
        sharing = Sharing(tile, result, split, concat).joined(kernel)
        share = sharing.share(kernel, consumers, rank)
        for position, sender in enumerate(senders):
            kernel.add(
                ReceiveTile(
                    kernel.location,
                    channel.number,
                    role,
                    sender,
                    share.offset_register,
                    share.strides,
                    sharing.target(kernel, share, producers if concat else 1, position),
                    share.extents,
                    producers == 1,
                )
            )


def _receive_whole(
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


def _table(kernel: KernelContext, lists: list[tuple[int, ...]]) -> int:
    found = tuple(lists)
    if found not in kernel.tables:
        kernel.tables.append(found)
    return kernel.tables.index(found)


def _entry(kernel: KernelContext, table: int, index: int) -> int:
    position = kernel.registers.known(index)
    entries = kernel.tables[table]
    if position is not None:
        values = {found[position] for found in entries if position < len(found)}
        if len(values) == 1 and all(position < len(found) for found in entries):
            return kernel.constant(values.pop())
        if all(found == (core,) for core, found in enumerate(entries)):
            return CORE_REGISTER
    destination = kernel.registers.new()
    kernel.add(Plain(kernel.location, TableLookup(kernel.location, destination, table, index)))
    return destination


def _length(kernel: KernelContext, table: int) -> int:
    lengths = {len(found) for found in kernel.tables[table]}
    if len(lengths) == 1:
        return kernel.constant(lengths.pop())
    destination = kernel.registers.new((0, max(lengths)))
    kernel.add(Plain(kernel.location, TableLookup(kernel.location, destination, table)))
    return destination


def _is_positive(kernel: KernelContext, register: int) -> int:
    zero = kernel.constant(0)
    return kernel.compute("cmpi_sgt", ElementType.I64, ElementType.I1, (register, zero))
