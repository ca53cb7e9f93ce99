"""Time of device memory: of one step alone, and of a program, whose steps share the memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch_spyre.cards.description import Timing as Constants
from torch_spyre.timing.exact import PS_PER_NS, ZERO, ceil_divide, total
from torch_spyre.timing.rates import bandwidth_share, pattern_rate, restick_rate
from torch_spyre.timing.record import DdrTransfer, Step
from torch_spyre.timing.units import cycle_ps


@dataclass(frozen=True)
class TransferCost:
    """All trips of one transfer.

    `scaled_bytes` are bytes over the share of the bandwidth that so few cores can use. `excess` is
    the time by which requests for short runs exceed the time of the bytes.
    """

    direction: str
    shared_input: str
    bytes: int
    scaled_bytes: Fraction
    requests: int
    excess: Fraction


@dataclass(frozen=True)
class StepMemory:
    """All trips of one step. `rate` is the one measured for its pattern, if it has one."""

    transfers: tuple[TransferCost, ...]
    rate: Fraction | None
    is_row_reduction: bool
    alone: Fraction
    restick_extra: Fraction
    mixed_lx: Fraction


@dataclass(frozen=True)
class ProgramMemory:
    time: Fraction
    read_bytes: int
    write_bytes: int
    requests: int


def step_memory(step: Step, constants: Constants) -> StepMemory:
    pattern = step.ddr_pattern
    rate = None if pattern is None else pattern_rate(pattern, constants)
    share = bandwidth_share(step.cores, constants)
    kind = None if pattern is None else pattern.kind
    # A measured rate holds the cost of its requests; a restickify has a formula of its own.
    charge_requests = kind in (None, "row_reduction")
    transfers = tuple(
        _transfer_cost(move, step, share, constants, charge_requests=charge_requests)
        for move in step.ddr
    )
    return StepMemory(
        transfers=transfers,
        rate=rate,
        is_row_reduction=kind == "row_reduction",
        alone=_plain_time(transfers, constants) if rate is None else _time_at(rate, transfers),
        restick_extra=(
            _restick_extra(step, transfers, share, constants) if kind == "restickify" else ZERO
        ),
        mixed_lx=_mixed_lx_time(step, transfers, constants),
    )


def program_memory(
    steps: Sequence[Step], memories: Sequence[StepMemory], constants: Constants
) -> ProgramMemory:
    """The first rule that fits, as in upstream's cost model."""
    every_transfer = [cost for memory in memories for cost in memory.transfers]
    if any(memory.rate is not None and not memory.is_row_reduction for memory in memories):
        return _summary(total(_in_company(m, constants) for m in memories), every_transfer)
    computing = [i for i, step in enumerate(steps) if step.pt or step.sfp]
    is_single = len(computing) == 1 and steps[computing[0]].trips == 1
    rate = memories[computing[0]].rate if is_single else None
    if rate is not None:
        return _summary(_time_at(rate, every_transfer), every_transfer)
    pooled = constants.DDR_SHARING == "pooled"
    charged = _charge_inputs_once(every_transfer, constants) if pooled else every_transfer
    return _summary(_plain_time(charged, constants), charged)


# --- Transfers ------------------------------------------------------------------------------------


def _transfer_cost(
    move: DdrTransfer, step: Step, share: Fraction, constants: Constants, *, charge_requests: bool
) -> TransferCost:
    moved = move.distinct_bytes if move.multicast else move.bytes
    timed = moved
    if constants.DDR_SHARING == "even":
        # Every core has its part of the bandwidth and no more, and fetches for itself.
        moved, timed = move.bytes, move.busiest_core_bytes * step.cores
    requests = ceil_divide(moved, _request_bytes(move, constants))
    excess = ZERO
    if charge_requests and move.direction == "read":
        request_ps = requests * _request_ps(share, constants)
        excess = max(ZERO, request_ps - PS_PER_NS * timed / (constants.DDR_BW * share))
    return TransferCost(
        direction=move.direction,
        shared_input=move.shared_input,
        bytes=moved * step.trips,
        scaled_bytes=timed * step.trips / share,
        requests=requests * step.trips,
        excess=excess * step.trips,
    )


def _request_bytes(move: DdrTransfer, constants: Constants) -> int:
    return min(max(move.run_bytes, constants.DDR_WORD), constants.DDR_BURST)


def _request_ps(share: Fraction, constants: Constants) -> Fraction:
    """The figure of the card is for all cores; fewer issue requests as they move bytes: slower."""
    return PS_PER_NS * constants.DDR_REQ_NS / share


def _charge_inputs_once(
    transfers: Iterable[TransferCost], constants: Constants
) -> list[TransferCost]:
    charged: list[TransferCost] = []
    place: dict[str, int] = {}
    for cost in transfers:
        if not cost.shared_input:
            charged.append(cost)
        elif cost.shared_input not in place:
            place[cost.shared_input] = len(charged)
            charged.append(cost)
        else:
            index = place[cost.shared_input]
            charged[index] = _larger(charged[index], cost, constants)
    return charged


def _larger(one: TransferCost, other: TransferCost, constants: Constants) -> TransferCost:
    """The most bytes, and the time of the slower, so that more of anything never costs less."""
    both = (one, other)
    slower_ps = max(_streaming_ps(cost, constants) + cost.excess for cost in both)
    return TransferCost(
        direction=one.direction,
        shared_input=one.shared_input,
        bytes=max(cost.bytes for cost in both),
        scaled_bytes=max(cost.scaled_bytes for cost in both),
        requests=max(cost.requests for cost in both),
        excess=slower_ps - max(_streaming_ps(cost, constants) for cost in both),
    )


def _streaming_ps(cost: TransferCost, constants: Constants) -> Fraction:
    return PS_PER_NS * cost.scaled_bytes / constants.DDR_BW


def _mixed_lx_time(step: Step, transfers: Sequence[TransferCost], constants: Constants) -> Fraction:
    """Where only views of both memories pay for the scratchpad: what exceeds the DDR part."""
    if constants.LX_ACCESS == "charged":
        return ZERO
    time = ZERO
    for move, cost in zip(step.ddr, transfers, strict=True):
        lx_cycles = Fraction(move.mixed_lx_bytes * step.trips, constants.LX_BYTES_CYCLE)
        lx_ps = lx_cycles * cycle_ps(constants)
        time += max(ZERO, lx_ps - _streaming_ps(cost, constants))
    return time


# --- Times ----------------------------------------------------------------------------------------


def _plain_time(transfers: Sequence[TransferCost], constants: Constants) -> Fraction:
    if not transfers:
        return ZERO
    read, written = _scaled(transfers, "read"), _scaled(transfers, "write")
    streaming = PS_PER_NS * (read + written) / constants.DDR_BW
    turnaround = constants.DDR_TURN * min(read, written)
    return streaming + turnaround + total(cost.excess for cost in transfers)


def _time_at(rate: Fraction, transfers: Sequence[TransferCost]) -> Fraction:
    return PS_PER_NS * (_scaled(transfers, "read") + _scaled(transfers, "write")) / rate


def _in_company(memory: StepMemory, constants: Constants) -> Fraction:
    """The rate of a row reduction holds only where it is alone."""
    return _plain_time(memory.transfers, constants) if memory.is_row_reduction else memory.alone


def _scaled(transfers: Sequence[TransferCost], direction: str) -> Fraction:
    return total(cost.scaled_bytes for cost in transfers if cost.direction == direction)


def _summary(time: Fraction, transfers: Sequence[TransferCost]) -> ProgramMemory:
    return ProgramMemory(
        time=time,
        read_bytes=sum(cost.bytes for cost in transfers if cost.direction == "read"),
        write_bytes=sum(cost.bytes for cost in transfers if cost.direction == "write"),
        requests=sum(cost.requests for cost in transfers),
    )


def _restick_extra(
    step: Step, transfers: Sequence[TransferCost], share: Fraction, constants: Constants
) -> Fraction:
    """What gathering short runs, or turning sticks, adds to reading and writing the bytes."""
    extra = ZERO
    for cost in transfers:
        if cost.direction != "read":
            continue
        byte_ps = PS_PER_NS * cost.scaled_bytes / restick_rate(constants)
        transfer_ps = byte_ps + max(byte_ps, cost.requests * _request_ps(share, constants))
        turned_per_cycle = step.cores * constants.TRANSPOSE_BYTES_CYCLE
        transpose_ps = cycle_ps(constants) * cost.bytes / turned_per_cycle
        extra += max(ZERO, max(transfer_ps, transpose_ps) - 2 * byte_ps)
    return extra
