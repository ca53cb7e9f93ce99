"""Derives the transfers on the ring from the instructions that exchange tiles between cores."""

from collections.abc import Iterator

from torch_spyre.backend.program.instructions import (
    Delivered,
    DeliveryKind,
    Instruction,
    Receive,
    Transfer,
)
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.record import Relayout, RingTransfer


def ring_transfers(instruction: Instruction, counts: InstructionCounts) -> Iterator[RingTransfer]:
    """Yield the transfers of an instruction, except those of relayouts."""
    if isinstance(instruction, Receive):
        return  # The transfer is counted where it is delivered.
    if isinstance(instruction, Delivered):
        if instruction.cores > 1 and instruction.kind != DeliveryKind.ALL_TO_ALL:
            yield _delivery(instruction, counts)
        return
    if isinstance(instruction, Transfer) and not instruction.store:
        yield from _multicast(counts)
    total, busiest = counts["remote_bytes"]
    if total:
        # The distance of the cores depends on the kernel; they are assumed to be neighbours.
        hops = counts["executions"][1]
        yield RingTransfer(busiest_link_bytes=busiest, hops=hops, byte_hops=total)


def relayouts(instruction: Instruction, counts: InstructionCounts) -> Iterator[Relayout]:
    """Yield the relayout that an exchange of slices between all cores of a group is."""
    if not isinstance(instruction, Delivered) or instruction.cores < 2:
        return
    if instruction.kind == DeliveryKind.ALL_TO_ALL:
        links = _delivery(instruction, counts)
        yield Relayout(
            bytes=instruction.tile_bytes * counts["executions"][0],
            run_bytes=max(1, _slice_bytes(instruction.tile_bytes, instruction.cores)),
            splits=instruction.cores,
            busiest_link_bytes=links.busiest_link_bytes,
            hops=links.hops,
            byte_hops=links.byte_hops,
        )


def _multicast(counts: InstructionCounts) -> Iterator[RingTransfer]:
    """Yield the way of sticks that are fetched once to all cores that load them.

    They pass the cores while the memory delivers them, half of them in each direction.
    """
    total, distinct = counts["device_bytes"][0], counts["distinct_device_bytes"]
    if distinct < total:
        yield RingTransfer(
            busiest_link_bytes=-(-distinct // 2),
            hops=counts["cores"] - 1,
            byte_hops=total - distinct,
            exposed=False,
        )


def _delivery(instruction: Delivered, counts: InstructionCounts) -> RingTransfer:
    groups = max(1, counts["cores"] // instruction.cores)
    once = _DELIVERIES[instruction.kind](instruction.cores, instruction.tile_bytes)
    return _repeated(once, times=counts["executions"][1], groups=groups)


def _repeated(once: RingTransfer, *, times: int, groups: int) -> RingTransfer:
    return RingTransfer(
        busiest_link_bytes=once.busiest_link_bytes * times,
        hops=once.hops * times,
        byte_hops=once.byte_hops * times * groups,
    )


def _consumed(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the transfer of a tile that is passed from core to core until all have it."""
    hops = cores - 1
    return RingTransfer(busiest_link_bytes=tile_bytes, hops=hops, byte_hops=hops * tile_bytes)


def _reduced(cores: int, tile_bytes: int) -> RingTransfer:
    return RingTransfer.all_reduce(cores=cores, tile_bytes=tile_bytes)


def _reduce_scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the rounds of a reduction, with the slice of the tile that one core retains."""
    return _reduced(cores, _slice_bytes(tile_bytes, cores))


def _scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the transfer of one core that sends all cores their slices over its first link."""
    slice_bytes = _slice_bytes(tile_bytes, cores)
    hops = cores - 1
    return RingTransfer(
        busiest_link_bytes=hops * slice_bytes, hops=hops, byte_hops=slice_bytes * cores * hops // 2
    )


def _exchanged(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the exchange of slices between all pairs of cores, on average a quarter ring apart."""
    slice_bytes = _slice_bytes(tile_bytes, cores)
    return RingTransfer(
        busiest_link_bytes=-(-cores * cores // 8) * slice_bytes,
        hops=cores // 2,
        byte_hops=cores * (cores * cores // 4) * slice_bytes,
    )


def _slice_bytes(tile_bytes: int, cores: int) -> int:
    return -(-tile_bytes // cores)


_DELIVERIES = {
    DeliveryKind.CONSUME: _consumed,
    DeliveryKind.REDUCE: _reduced,
    DeliveryKind.REDUCE_SCATTER: _reduce_scattered,
    DeliveryKind.GATHER: _reduced,  # the same number of rounds, with a tile in each
    DeliveryKind.ALL_TO_ALL: _exchanged,
    DeliveryKind.SCATTER: _scattered,
}
