"""Times of the units inside the cores and of the ring, for one step."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from torch_spyre.cards.description import TimingConstants
from torch_spyre.timing.exact import PS_PER_NS, ZERO, ceil_divide, log2, power, total
from torch_spyre.timing.record import LxTraffic, PtWork, Relayout, SfpWork, Step


@dataclass(frozen=True)
class UnitCost:
    """Cost of all trips of one step: exact times in ps, and the work behind the utilisations."""

    pt: Fraction
    split_shape: Fraction
    sfp: Fraction
    lx: Fraction
    ring_hidden: Fraction
    ring_exposed: Fraction
    relayout: Fraction
    # Multiply-accumulates and vector lanes, converted to 16-bit formats.
    fp16_macs: Fraction
    busiest_core_fp16_macs: Fraction
    sfp_lane_ops: Fraction
    busiest_core_lane_ops: Fraction


def unit_cost(step: Step, constants: TimingConstants) -> UnitCost:
    per_trip = _cost_of_one_trip(step, constants)
    if step.trips == 1:
        return per_trip
    return UnitCost(**{name: value * step.trips for name, value in vars(per_trip).items()})


def cycle_ps(constants: TimingConstants) -> Fraction:
    return PS_PER_NS / constants.CLOCK_GHZ


def _cost_of_one_trip(step: Step, constants: TimingConstants) -> UnitCost:
    cycle = cycle_ps(constants)
    ring = [
        (item.exposed, ring_cycles(item.busiest_link_bytes, item.hops, constants))
        for item in step.ring
    ]
    pt_rates = [(work, format_rate(work, constants)) for work in step.pt]
    lanes_used = [(work, _lanes_used(work, constants)) for work in step.sfp]
    return UnitCost(
        pt=cycle * total(_pt_cycles(work, step.cores, constants) for work in step.pt),
        split_shape=total(_split_shape_ps(work, constants) for work in step.pt),
        sfp=cycle * total(_sfp_cycles(work, constants) for work in step.sfp),
        lx=cycle * total(_lx_cycles(traffic, constants) for traffic in step.lx),
        ring_hidden=cycle * total(cycles for exposed, cycles in ring if not exposed),
        ring_exposed=cycle * total(cycles for exposed, cycles in ring if exposed),
        relayout=total(_relayout_ps(item, step.cores, constants) for item in step.relayouts),
        fp16_macs=total(work.macs / rate for work, rate in pt_rates),
        busiest_core_fp16_macs=total(work.busiest_core_macs / rate for work, rate in pt_rates),
        sfp_lane_ops=total(work.elements * used for work, used in lanes_used),
        busiest_core_lane_ops=total(work.busiest_core_elements * used for work, used in lanes_used),
    )


def _instruction_cycles(cycles: Fraction, constants: TimingConstants) -> Fraction:
    return Fraction(ceil(cycles)) if constants.WHOLE_CYCLES else cycles


# --- Matrix unit ----------------------------------------------------------------------------------


def _pt_cycles(work: PtWork, cores: int, constants: TimingConstants) -> Fraction:
    rate = constants.PT_MAC_FP16 * format_rate(work, constants)
    share = _kind_share(work, cores, constants) * _fill(work, constants)
    return _instruction_cycles(work.busiest_core_macs / (rate * share), constants)


def format_rate(work: PtWork, constants: TimingConstants) -> Fraction:
    return {
        "fp16": Fraction(1),
        "fp8": constants.PT_MAC_FP8,
        "int8": constants.PT_MAC_INT8,
        "int4": constants.PT_MAC_INT4,
        "fp32": constants.PT_MAC_FP32,
    }[work.format]


def _kind_share(work: PtWork, cores: int, constants: TimingConstants) -> Fraction:
    """Return the share of the peak rate that upstream measured for matmuls of this kind."""
    if work.kind == "projection":
        is_small = work.batch <= constants.PT_3D2D_BATCH
        return constants.PT_3D2D_LO if is_small else constants.PT_3D2D_HI
    is_batched = work.kind == "batched" and work.batch >= constants.PT_BMM_BATCH
    if is_batched and cores >= constants.PT_BMM_CORES:
        return constants.PT_BMM_RATE
    return constants.PT_SUSTAIN


def _fill(work: PtWork, constants: TimingConstants) -> Fraction:
    """Return the share of the array that is in use: few rows leave it partly empty."""
    if work.output_tiled or work.rows >= constants.PT_FULL_ROWS:
        return Fraction(1)
    return power(Fraction(work.rows, constants.PT_FULL_ROWS), constants.PT_FILL_EXP)


def _split_shape_ps(work: PtWork, constants: TimingConstants) -> Fraction:
    fit = constants.PT_SPLIT_SHAPE
    excess = work.rows * work.columns - fit.free_area
    if excess <= 0:
        return ZERO
    long, short = work.row_splits, work.column_splits
    height, width = work.rows * long, work.columns * short
    if (height, long) < (width, short):
        long, short = short, long
    ns_per_element = fit.long_ns * _halvings(long, fit.long_free_splits)
    ns_per_element += fit.short_ns * _halvings(short, fit.short_free_splits)
    return excess * ns_per_element * PS_PER_NS


def _halvings(value: int, free: int) -> Fraction:
    return log2(Fraction(value, free)) if value > free else ZERO


# --- Vector unit ----------------------------------------------------------------------------------


def _sfp_cycles(work: SfpWork, constants: TimingConstants) -> Fraction:
    vectors = Fraction(work.busiest_core_elements, _lanes(work, constants))
    tail = work.reduced_sticks * constants.SFP_REDUCE_STICK
    return _instruction_cycles(vectors, constants) * _passes(work, constants) + tail


def _passes(work: SfpWork, constants: TimingConstants) -> int:
    return {
        "simple": constants.SFP_COST_SIMPLE,
        "copy": constants.SFP_COST_SIMPLE,
        "divide": constants.SFP_COST_DIVIDE,
        "transcendental": constants.SFP_COST_TRANSCENDENTAL,
        "random": constants.SFP_COST_RANDOM,
        "reduce": constants.SFP_REDUCE_PASSES,
        "exchange": constants.SFP_COST_EXCHANGE,
    }[work.cost]


def _lanes(work: SfpWork, constants: TimingConstants) -> int:
    """Return the lanes of the vector unit; 8-bit elements are widened to 16 bits (assumed)."""
    return constants.SFP_LANES_32 if work.element_bytes == 4 else constants.SFP_LANES_16


def _lanes_used(work: SfpWork, constants: TimingConstants) -> Fraction:
    """Return the 16-bit lanes that one element occupies, over all passes."""
    width = Fraction(constants.SFP_LANES_16, _lanes(work, constants))
    return width * _passes(work, constants)


# --- Scratchpad and ring --------------------------------------------------------------------------


def _lx_cycles(traffic: LxTraffic, constants: TimingConstants) -> Fraction:
    if constants.LX_ACCESS != "charged":
        return ZERO  # Only views of both memories have a cost; see memory.py.
    cycles = Fraction(traffic.busiest_core_bytes, constants.LX_BYTES_CYCLE)
    return _instruction_cycles(cycles, constants)


def ring_cycles(link_bytes: int, hops: int, constants: TimingConstants) -> Fraction:
    if constants.WHOLE_CYCLES:
        stream = Fraction(ceil_divide(link_bytes, constants.RING_BYTES_CYCLE))
    else:
        stream = Fraction(link_bytes, constants.RING_BYTES_CYCLE)
    return stream + hops * constants.RING_HOP_CYCLES


def _relayout_ps(relayout: Relayout, cores: int, constants: TimingConstants) -> Fraction:
    min_splits, max_splits = constants.RELAYOUT_SPLITS
    splits = min(max(relayout.splits, min_splits), max_splits)
    bytes_per_core = Fraction(relayout.bytes, cores)
    runs = bytes_per_core / relayout.run_bytes
    ns_per_run = constants.RELAYOUT_A + constants.RELAYOUT_B * log2(Fraction(splits))
    copy_ns = bytes_per_core * splits / constants.RELAYOUT_K
    fitted_ps = (runs * max(ZERO, ns_per_run) + copy_ns) * PS_PER_NS
    links = ring_cycles(relayout.busiest_link_bytes, relayout.hops, constants)
    return max(fitted_ps, links * cycle_ps(constants))
