"""Hypothesis strategies for records of programs."""

from hypothesis import strategies as st

from torch_spyre.timing import (
    DdrPattern,
    DdrTransfer,
    LxTraffic,
    ProgramRecord,
    PtWork,
    Relayout,
    RingTransfer,
    SfpWork,
    Step,
)

CORES = 32
COSTS = ("simple", "copy", "divide", "transcendental", "reduce", "exchange")
LINKS = 64
STICK = 128
amounts = st.integers(0, 2**34)
small = st.integers(1, 2**14)
splits = st.sampled_from([1, 2, 4, 8, 16, 32])


@st.composite
def total_and_busiest(draw, cores, unit=1):
    busiest = draw(amounts)
    total = draw(st.integers(busiest, busiest * cores))
    return total * unit, busiest * unit


@st.composite
def pt_works(draw, cores):
    total, busiest = draw(total_and_busiest(cores))
    return PtWork(
        macs=total,
        busiest_core_macs=busiest,
        format=draw(st.sampled_from(["fp16", "fp8", "int8", "int4", "fp32"])),
        kind=draw(st.sampled_from(["matmul", "batched", "projection"])),
        batch=draw(st.integers(1, 64)),
        rows=draw(small),
        columns=draw(small),
        row_splits=draw(splits),
        column_splits=draw(splits),
        output_tiled=draw(st.booleans()),
    )


@st.composite
def sfp_works(draw, cores):
    total, busiest = draw(total_and_busiest(cores))
    return SfpWork(
        cost=draw(
            st.sampled_from(["simple", "copy", "divide", "transcendental", "reduce", "exchange"])
        ),
        elements=total,
        busiest_core_elements=busiest,
        element_bytes=draw(st.sampled_from([1, 2, 4])),
        reduced_sticks=draw(st.integers(0, 1000)),
    )


@st.composite
def transfers(draw, cores):
    total, busiest = draw(total_and_busiest(cores, STICK))
    direction = draw(st.sampled_from(["read", "write"]))
    is_read = direction == "read"
    return DdrTransfer(
        direction=direction,
        bytes=total,
        distinct_bytes=draw(st.integers(0, total // STICK)) * STICK,
        busiest_core_bytes=busiest,
        run_bytes=draw(st.integers(1, 8192)),
        multicast=is_read and draw(st.booleans()),
        shared_input=draw(st.sampled_from(["", "x", "y"])) if is_read else "",
        mixed_lx_bytes=draw(amounts),
    )


patterns = st.builds(
    DdrPattern,
    kind=st.sampled_from(
        [
            "restickify",
            "cross_row_reduction",
            "row_reduction",
            "cat_outer",
            "cat_inner",
            "transpose_outer",
            "row_broadcast",
            "column_broadcast",
        ]
    ),
    rows=small,
    columns=small,
    outer=small,
)


@st.composite
def ring_transfers(draw):
    link_bytes = draw(amounts)
    return RingTransfer(
        busiest_link_bytes=link_bytes,
        hops=draw(st.integers(0, 31)),
        byte_hops=draw(st.integers(0, LINKS * link_bytes)),
        exposed=draw(st.booleans()),
    )


@st.composite
def relayouts(draw):
    link_bytes = draw(amounts)
    return Relayout(
        bytes=draw(amounts),
        run_bytes=draw(st.integers(1, 8192)),
        splits=draw(splits),
        busiest_link_bytes=link_bytes,
        hops=draw(st.integers(0, 31)),
        byte_hops=draw(st.integers(0, LINKS * link_bytes)),
    )


def few(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


@st.composite
def steps(draw):
    cores = draw(st.integers(1, CORES))
    moves = draw(st.lists(transfers(cores), max_size=3).map(tuple))
    lx = few(total_and_busiest(cores).map(lambda t: LxTraffic(bytes=t[0], busiest_core_bytes=t[1])))
    return Step(
        name=draw(st.sampled_from(["a", "b", "c"])),
        op="op",
        cores=cores,
        trips=draw(st.integers(0, 5)),
        pt=draw(few(pt_works(cores))),
        sfp=draw(few(sfp_works(cores))),
        ddr=moves,
        ddr_pattern=draw(st.none() | patterns) if moves else None,
        lx=draw(lx),
        ring=draw(few(ring_transfers())),
        relayouts=draw(few(relayouts())),
    )


@st.composite
def programs(draw, min_steps=0):
    content = draw(st.lists(steps(), min_size=min_steps, max_size=4).map(tuple))
    return ProgramRecord(name="program", steps=content, lx_peak_bytes=draw(st.integers(0, 2**21)))
