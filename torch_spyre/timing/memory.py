"""Time of device memory, for a step in isolation and for a program, whose steps share it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch_spyre.cards.description import TimingConstants
from torch_spyre.timing.exact import PS_PER_NS, ZERO, ceil_divide, total
from torch_spyre.timing.rates import bandwidth_share, pattern_rate, restick_rate, tile_efficiency
from torch_spyre.timing.record import DdrTransfer, Step
from torch_spyre.timing.units import cycle_ps


@dataclass(frozen=True)
class TransferCost:
    """Cost of all trips of one transfer.

    `scaled_bytes` are the bytes divided by the share of the bandwidth that the cores of the step
    can use. `request_excess` is the time by which requests for short runs exceed that of the bytes.
    """

    direction: str
    shared_input: str
    bytes: int
    scaled_bytes: Fraction
    requests: int
    request_excess: Fraction


@dataclass(frozen=True)
class StepMemory:
    """Memory time of all trips of one step; `rate` is the measured one of its pattern, if any."""

    transfers: tuple[TransferCost, ...]
    rate: Fraction | None
    is_row_reduction: bool
    # The time if no other step used the memory.
    isolated_time: Fraction
    restick_extra: Fraction
    mixed_lx: Fraction


@dataclass(frozen=True)
class ProgramMemory:
    time: Fraction
    read_bytes: int
    write_bytes: int
    requests: int


def step_memory(step: Step, constants: TimingConstants) -> StepMemory:
    pattern = step.ddr_pattern
    rate = None if pattern is None else pattern_rate(pattern, constants)
    share = bandwidth_share(step.cores, constants)
    kind = None if pattern is None else pattern.kind
    # A measured rate includes the cost of requests, and a restickify has its own formula.
    charge_requests = kind in (None, "row_reduction")
    transfers = tuple(
        _transfer_cost(move, step, share, constants, charge_requests=charge_requests)
        for move in step.ddr
    )
    return StepMemory(
        transfers=transfers,
        rate=rate,
        is_row_reduction=kind == "row_reduction",
        isolated_time=(
            _plain_time(transfers, constants) if rate is None else _time_at(rate, transfers)
        ),
        restick_extra=(
            _restick_extra(step, transfers, share, constants) if kind == "restickify" else ZERO
        ),
        mixed_lx=_mixed_lx_time(step, transfers, constants),
    )


def program_memory(
    steps: Sequence[Step], memories: Sequence[StepMemory], constants: TimingConstants
) -> ProgramMemory:
    """Return the memory time of a program: steps with a pattern at their rates, others together.

    A row reduction has its rate only where it is alone in its program.
    """
    is_alone = _is_single_reduction(steps)
    time = ZERO
    measured: list[TransferCost] = []
    plain: list[TransferCost] = []
    for memory in memories:
        if memory.rate is not None and (is_alone or not memory.is_row_reduction):
            time += _time_at(memory.rate, memory.transfers)
            measured += memory.transfers
        else:
            plain += memory.transfers
    # Upstream counts an input that several ops read once only if no op has a pattern.
    if constants.DDR_SHARING == "pooled" and not measured:
        plain = _charge_inputs_once(plain, constants)
    time += _plain_time(plain, constants) / _tile_efficiency(steps, constants)
    return _summary(time, [*measured, *plain])


def _is_single_reduction(steps: Sequence[Step]) -> bool:
    """Return whether one step at most computes, and no step is in a loop."""
    computing = [step for step in steps if step.pt or any(w.cost != "copy" for w in step.sfp)]
    return len(computing) <= 1 and all(step.trips == 1 for step in steps)


def _tile_efficiency(steps: Sequence[Step], constants: TimingConstants) -> Fraction:
    """Return the share of the bandwidth that loops over small or very large tiles reach."""
    loops = [step.tile_loop for step in steps if step.tile_loop is not None]
    return min((tile_efficiency(loop, constants) for loop in loops), default=Fraction(1))


# --- Transfers ------------------------------------------------------------------------------------


def _transfer_cost(
    move: DdrTransfer,
    step: Step,
    share: Fraction,
    constants: TimingConstants,
    *,
    charge_requests: bool,
) -> TransferCost:
    moved = move.distinct_bytes if move.multicast else move.bytes
    timed = moved - (1 - constants.DDR_REREAD) * move.reread_bytes
    if constants.DDR_SHARING == "even":
        # Every core has an equal part of the bandwidth, and no multicast.
        moved, timed = move.bytes, Fraction(move.busiest_core_bytes * step.cores)
    requests = ceil_divide(moved, _request_bytes(move, constants))
    request_excess = ZERO
    if charge_requests and move.direction == "read":
        request_ps = requests * _request_ps(share, constants)
        request_excess = max(ZERO, request_ps - PS_PER_NS * timed / (constants.DDR_BW * share))
    return TransferCost(
        direction=move.direction,
        shared_input=move.shared_input,
        bytes=moved * step.trips,
        scaled_bytes=timed * step.trips / share,
        requests=requests * step.trips,
        request_excess=request_excess * step.trips,
    )


def _request_bytes(move: DdrTransfer, constants: TimingConstants) -> int:
    return min(max(move.run_bytes, constants.DDR_WORD), constants.DDR_BURST)


def _request_ps(share: Fraction, constants: TimingConstants) -> Fraction:
    """Return the time per request; fewer cores issue requests more slowly, as they move bytes."""
    return PS_PER_NS * constants.DDR_REQ_NS / share


def _charge_inputs_once(
    transfers: Iterable[TransferCost], constants: TimingConstants
) -> list[TransferCost]:
    """Merge the reads of an input by several steps into one read."""
    charged: list[TransferCost] = []
    positions: dict[str, int] = {}
    for cost in transfers:
        if not cost.shared_input:
            charged.append(cost)
        elif cost.shared_input not in positions:
            positions[cost.shared_input] = len(charged)
            charged.append(cost)
        else:
            index = positions[cost.shared_input]
            charged[index] = _larger(charged[index], cost, constants)
    return charged


def _larger(first: TransferCost, second: TransferCost, constants: TimingConstants) -> TransferCost:
    """Return the larger bytes and the longer time, so that more of anything never costs less."""
    both = (first, second)
    slower_ps = max(_streaming_ps(cost, constants) + cost.request_excess for cost in both)
    return TransferCost(
        direction=first.direction,
        shared_input=first.shared_input,
        bytes=max(cost.bytes for cost in both),
        scaled_bytes=max(cost.scaled_bytes for cost in both),
        requests=max(cost.requests for cost in both),
        request_excess=slower_ps - max(_streaming_ps(cost, constants) for cost in both),
    )


def _streaming_ps(cost: TransferCost, constants: TimingConstants) -> Fraction:
    return PS_PER_NS * cost.scaled_bytes / constants.DDR_BW


def _mixed_lx_time(
    step: Step, transfers: Sequence[TransferCost], constants: TimingConstants
) -> Fraction:
    """Return the scratchpad time of views of both memories that exceeds their DDR time."""
    if constants.LX_ACCESS == "charged":
        return ZERO
    time = ZERO
    for move, cost in zip(step.ddr, transfers, strict=True):
        lx_cycles = Fraction(move.mixed_lx_bytes * step.trips, constants.LX_BYTES_CYCLE)
        lx_ps = lx_cycles * cycle_ps(constants)
        time += max(ZERO, lx_ps - _streaming_ps(cost, constants))
    return time


# --- Times ----------------------------------------------------------------------------------------


def _plain_time(transfers: Sequence[TransferCost], constants: TimingConstants) -> Fraction:
    if not transfers:
        return ZERO
    read, written = _scaled(transfers, "read"), _scaled(transfers, "write")
    streaming = PS_PER_NS * (read + written) / constants.DDR_BW
    turnaround = constants.DDR_TURN * min(read, written)
    return streaming + turnaround + total(cost.request_excess for cost in transfers)


def _time_at(rate: Fraction, transfers: Sequence[TransferCost]) -> Fraction:
    return PS_PER_NS * (_scaled(transfers, "read") + _scaled(transfers, "write")) / rate


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
    step: Step, transfers: Sequence[TransferCost], share: Fraction, constants: TimingConstants
) -> Fraction:
    """Return the time that short runs or transposed sticks add to reading and writing the bytes."""
    extra = ZERO
    for cost in transfers:
        if cost.direction != "read":
            continue
        byte_ps = PS_PER_NS * cost.scaled_bytes / restick_rate(constants)
        transfer_ps = byte_ps + max(byte_ps, cost.requests * _request_ps(share, constants))
        transposed_per_cycle = step.cores * constants.TRANSPOSE_BYTES_CYCLE
        transpose_ps = cycle_ps(constants) * cost.bytes / transposed_per_cycle
        extra += max(ZERO, max(transfer_ps, transpose_ps) - 2 * byte_ps)
    return extra
