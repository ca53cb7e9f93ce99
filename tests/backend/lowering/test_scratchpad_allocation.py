"""Tests of scratchpad allocation: live buffers do not overlap, and dead ones are reused."""

import sys

import pytest
from compiling import compiled, nodes_before
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_kernels import KernelWriter

from torch_spyre import ktir
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.lowering.liveness import BufferGroup, buffer_groups
from torch_spyre.backend.lowering.scratchpad_allocation import (
    _first_fit,
    _groups_at_peak,
    allocate,
)
from torch_spyre.backend.lowering.values import Buffer
from torch_spyre.backend.program.instructions import Matmul, Transfer
from torch_spyre.cards import load_card
from torch_spyre.errors import ScratchpadOverflowError


def overlap(first, second):
    return first[0] < second[1] and second[0] < first[1]


@st.composite
def groups(draw):
    drawn = []
    for number in range(draw(st.integers(0, 30))):
        start = draw(st.integers(0, 40))
        size = draw(st.integers(0, 2000))
        end = start + draw(st.integers(0, 15))
        drawn.append(BufferGroup(size, start, end, [Buffer(size, f"b{number}")]))
    return drawn


def live_together(first, second):
    return first.start <= second.end and second.start <= first.end


@given(groups(), st.randoms(use_true_random=False))
def test_first_fit_allocates_live_groups_at_disjoint_addresses(drawn, random):
    order = list(drawn)
    random.shuffle(order)
    slots = _first_fit(order)
    for position, first in enumerate(drawn):
        assert slots[first].low % 128 == 0
        assert slots[first].high - slots[first].low >= first.bytes
        for second in drawn[:position]:
            if live_together(first, second):
                assert not overlap(
                    (slots[first].low, slots[first].low + first.bytes),
                    (slots[second].low, slots[second].low + second.bytes),
                )


@given(groups(), st.randoms(use_true_random=False))
def test_first_fit_takes_the_lowest_address(drawn, random):
    """Compare with a linear search of all addresses."""
    order = [group for group in drawn if group.bytes]
    random.shuffle(order)
    slots = _first_fit(order)
    for position, group in enumerate(order):
        occupied = [slots[earlier] for earlier in order[:position] if live_together(earlier, group)]
        size = slots[group].high - slots[group].low
        free = (
            address
            for address in range(0, slots[group].low + 1, 128)
            if not any(
                overlap((address, address + size), (slot.low, slot.high)) for slot in occupied
            )
        )
        assert next(free) == slots[group].low


def size_in_sticks(groups):
    return sum(-(-group.bytes // 128) * 128 for group in groups)


@given(groups())
def test_groups_at_peak_are_live_where_the_most_bytes_are(drawn):
    def live_bytes(position):
        return size_in_sticks(group for group in drawn if group.start <= position <= group.end)

    at_peak = _groups_at_peak(drawn)
    assert size_in_sticks(at_peak) == max((live_bytes(group.start) for group in drawn), default=0)
    assert [group.bytes for group in at_peak] == sorted((g.bytes for g in at_peak), reverse=True)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_live_buffers_of_a_kernel_do_not_overlap(data):
    """Test whole kernels; test_passes_preserve_results tests the live ranges themselves."""
    text = KernelWriter(lambda low, high: data.draw(st.integers(low, high))).text()
    nodes = nodes_before("allocate", text)
    allocation = allocate(nodes, 2 << 20)
    kernel_groups = buffer_groups(nodes)
    assert all(address % 128 == 0 for address in allocation.addresses.values())
    for position, first in enumerate(kernel_groups):
        low = allocation.addresses[first.buffers[0]]
        assert {allocation.addresses[buffer] for buffer in first.buffers} == {low}
        assert low + first.bytes <= allocation.peak
        for second in kernel_groups[:position]:
            if live_together(first, second):
                start = allocation.addresses[second.buffers[0]]
                assert not overlap((low, low + first.bytes), (start, start + second.bytes))
    for node in nodes:
        results = [allocation.addresses[buffer] for buffer in dict.fromkeys(node.writes())]
        assert len(set(results)) == len(results)


def with_loads(lines, elements=64):
    box = f"affine_set<(d0) : (d0 >= 0, -d0 + {elements - 1} >= 0)>"
    tensor, tile = f"tensor<{elements}xf16>", f"<{elements}xindex>"
    view = f"memref<{elements}xf16>"
    return "\n".join(
        [
            "func.func @f(%p: index) {",
            "%c0 = arith.constant 0 : index",
            f"%v = ktdp.construct_memory_view %p, sizes: [{elements}], strides: [1] : {view}",
            f"%t = ktdp.construct_access_tile %v[%c0] {{access_tile_set = {box}}} "
            f": {view} -> {tile}",
            *(line.format(tensor=tensor, tile=tile) for line in lines),
            "return\n}",
        ]
    )


LOAD = "%{name} = ktdp.load %t : {{tile}} -> {{tensor}}"
STORE = "ktdp.store %{name}, %t : {{tensor}}, {{tile}}"


def test_values_with_disjoint_live_ranges_share_an_address():
    lines = []
    for number in range(20):
        lines += [LOAD.format(name=f"x{number}"), STORE.format(name=f"x{number}")]
    assert compiled(with_loads(lines)).scratchpad_bytes == 128


def test_an_op_writes_over_a_dead_operand():
    lines = [LOAD.format(name="x"), "%y = math.exp %x : {tensor}", STORE.format(name="y")]
    assert compiled(with_loads(lines)).scratchpad_bytes == 128


def test_a_result_that_nothing_reads_has_its_own_address():
    lines = [
        LOAD.format(name="x"),
        "%dead = math.exp %x : {tensor}",
        "%y = math.absf %x : {tensor}",
        STORE.format(name="y"),
        LOAD.format(name="w"),
        "%unused = arith.addf %dead, %w : {tensor}",
    ]
    nodes = nodes_before("allocate", with_loads(lines))
    (chain,) = (node for node in nodes if len(list(node.writes())) == 2)
    addresses = allocate(nodes, 2 << 20).addresses
    first, second = chain.writes()
    assert addresses[first] != addresses[second]


def matmul_of_squares(side):
    """Return a kernel whose last loaded tensor could reuse the memory of the right operand."""
    tensor = f"tensor<{side}x{side}xf16>"
    box = f"affine_set<(d0, d1) : (d0 >= 0, -d0 + {side - 1} >= 0, d1 >= 0, -d1 + {side - 1} >= 0)>"
    view, tile = f"memref<{side}x{side}xf16>", f"<{side}x{side}xindex>"
    return f"""func.func @f(%p: index) {{
        %c0 = arith.constant 0 : index
        %v = ktdp.construct_memory_view %p, sizes: [{side}, {side}], strides: [{side}, 1] : {view}
        %t = ktdp.construct_access_tile %v[%c0, %c0] {{access_tile_set = {box}}} : {view} -> {tile}
        %a = ktdp.load %t : {tile} -> {tensor}
        %b = ktdp.load %t : {tile} -> {tensor}
        %e = tensor.empty() : {tensor}
        %y = linalg.matmul ins(%a, %b : {tensor}, {tensor}) outs(%e : {tensor}) -> {tensor}
        %c = ktdp.load %t : {tile} -> {tensor}
        %z = arith.subf %c, %y : {tensor}
        ktdp.store %z, %t : {tensor}, {tile}
        return
    }}"""


def test_a_right_operand_has_its_own_address_if_the_capacity_allows():
    square = 2 * 64 * 64
    program = compiled(matmul_of_squares(64))
    matmul = next(step for step in program.code if isinstance(step, Matmul))
    tiles = [
        step.tile
        for step in program.code
        if isinstance(step, Transfer) and step.tile.address != matmul.b.address
    ]
    assert len(tiles) == 3  # all loads and stores but that of the right operand
    for tile in tiles:
        assert not overlap(
            (tile.address, tile.address + square), (matmul.b.address, matmul.b.address + square)
        )
    assert program.scratchpad_bytes == 3 * square


def test_a_right_operand_shares_its_address_if_the_capacity_is_too_small():
    side = 576
    assert 4 * 2 * side * side > 2 << 20 >= 3 * 2 * side * side
    assert compiled(matmul_of_squares(side)).scratchpad_bytes == 3 * 2 * side * side


def test_the_overflow_error_names_the_live_values():
    lines = [LOAD.format(name=name) for name in ("first", "second", "third")]
    lines += [STORE.format(name=name) for name in ("third", "second", "first")]
    with pytest.raises(ScratchpadOverflowError) as caught:
        compiled(with_loads(lines, elements=400_000))
    message = str(caught.value)
    for part in ("f", "2400000", "2097152", "%first", "%second", "%third", "800000"):
        assert part in message


def test_a_kernel_that_fits_exactly_compiles():
    lines = [LOAD.format(name="x"), STORE.format(name="x")]
    assert compiled(with_loads(lines, elements=1 << 20)).scratchpad_bytes == 2 << 20
    with pytest.raises(ScratchpadOverflowError):
        compiled(with_loads(lines, elements=(1 << 20) + 1))


def chained(count):
    lines = [LOAD.format(name="v0")]
    lines += [f"%v{i + 1} = arith.addf %v{i}, %v0 : {{tensor}}" for i in range(count)]
    return with_loads([*lines, STORE.format(name=f"v{count}")])


def inserted(count):
    lines = [LOAD.format(name="v0"), "%k = arith.constant 1.0 : f16"]
    lines += [f"%v{i + 1} = tensor.insert %k into %v{i}[%c0] : {{tensor}}" for i in range(count)]
    return with_loads([*lines, STORE.format(name=f"v{count}")])


def all_live_together(count):
    lines = [LOAD.format(name=f"x{i}") for i in range(count // 2)]
    return with_loads([*lines, *(STORE.format(name=f"x{i}") for i in range(count // 2))])


def in_loops(count):
    lines = [LOAD.format(name="v0"), "%c1 = arith.constant 1 : index"]
    for i in range(count // 3):
        lines += [
            f"%v{i + 1} = scf.for %i{i} = %c0 to %c1 step %c1 iter_args(%a{i} = %v{i}) "
            "-> ({tensor}) {{",
            f"%b{i} = math.exp %a{i} : {{tensor}}",
            f"scf.yield %b{i} : {{tensor}}\n}}}}",
        ]
    return with_loads([*lines, STORE.format(name=f"v{count // 3}")])


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("kernel", [chained, inserted, all_live_together, in_loops])
def test_compile_time_is_almost_linear_in_the_length_of_the_kernel(kernel):
    """Four times the ops take about four times the steps, not sixteen times.

    If all values are live together, first fit looks at more slots for each.
    """
    assert _steps(kernel(1200)) < (8 if kernel is all_live_together else 4.5) * _steps(kernel(300))


def _steps(text):
    """Return the lines of Python executed to compile a kernel, which do not vary like time."""
    module = ktir.load(text)
    function = module.functions["f"]
    lines = 0

    def traced(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return traced

    card, before = load_card(), sys.gettrace()
    sys.settrace(traced)
    try:
        compile_function(function.operation, ["p"], (1, 1, 1), module.source, card, known={})
    finally:
        sys.settrace(before)
    return lines
