"""Addresses in the scratchpad: nothing that is alive is overwritten, and little room is wasted."""

import sys

import pytest
from compiling import compiled, nodes_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_kernels import KernelWriter

from torch_spyre import ktir
from torch_spyre.backend.lowering import compile_function, placement
from torch_spyre.backend.lowering.lives import Group, groups_of
from torch_spyre.backend.lowering.placement import _first_fit, place
from torch_spyre.backend.lowering.values import Buffer
from torch_spyre.backend.program.instructions import Matmul, Transfer
from torch_spyre.cards import load_card
from torch_spyre.errors import ScratchpadOverflowError


def overlap(first, second):
    return first[0] < second[1] and second[0] < first[1]


@st.composite
def groups(draw):
    found = []
    for number in range(draw(st.integers(0, 30))):
        start = draw(st.integers(0, 40))
        size = draw(st.integers(0, 2000))
        end = start + draw(st.integers(0, 15))
        found.append(Group(size, start, end, [Buffer(size, f"b{number}")]))
    return found


@given(groups(), st.randoms(use_true_random=False))
def test_first_fit_puts_no_two_groups_at_one_place_at_one_time(found, chance):
    order = list(found)
    chance.shuffle(order)
    rooms = _first_fit(order)
    for position, one in enumerate(found):
        assert rooms[one].low % 128 == 0
        assert rooms[one].high - rooms[one].low >= one.bytes
        for other in found[:position]:
            if one.start <= other.end and other.start <= one.end:
                assert not overlap(
                    (rooms[one].low, rooms[one].low + one.bytes),
                    (rooms[other].low, rooms[other].low + other.bytes),
                )


@given(groups(), st.randoms(use_true_random=False))
def test_first_fit_takes_the_lowest_address(found, chance):
    """Against the obvious way of finding it."""
    order = [group for group in found if group.bytes]
    chance.shuffle(order)
    rooms = _first_fit(order)
    for position, group in enumerate(order):
        others = [
            rooms[other]
            for other in order[:position]
            if other.start <= group.end and group.start <= other.end
        ]
        size = rooms[group].high - rooms[group].low
        free = (
            address
            for address in range(0, rooms[group].low + 1, 128)
            if not any(overlap((address, address + size), (room.low, room.high)) for room in others)
        )
        assert next(free) == rooms[group].low


@given(groups())
def test_the_crowd_is_what_is_alive_when_the_most_is_needed(found):
    def needed(group):
        return sum(
            -(-other.bytes // 128) * 128
            for other in found
            if other.start <= group.start <= other.end
        )

    crowd = placement._crowd(found)
    assert sum(-(-group.bytes // 128) * 128 for group in crowd) == max(
        map(needed, found), default=0
    )
    assert [group.bytes for group in crowd] == sorted((g.bytes for g in crowd), reverse=True)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_buffers_that_are_alive_together_do_not_overlap(data):
    """On whole kernels; that the lives themselves are right is test_passes_keep_results."""
    text = KernelWriter(lambda low, high: data.draw(st.integers(low, high))).text()
    nodes = nodes_of(text, "place")
    placed = place(nodes, 2 << 20)
    found = groups_of(nodes)
    assert all(address % 128 == 0 for address in placed.addresses.values())
    for position, one in enumerate(found):
        low = placed.addresses[one.buffers[0]]
        assert {placed.addresses[buffer] for buffer in one.buffers} == {low}
        assert low + one.bytes <= placed.peak
        for other in found[:position]:
            if one.start <= other.end and other.start <= one.end:
                start = placed.addresses[other.buffers[0]]
                assert not overlap((low, low + one.bytes), (start, start + other.bytes))


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


def test_values_take_turns_at_one_address():
    lines = []
    for number in range(20):
        lines += [LOAD.format(name=f"x{number}"), STORE.format(name=f"x{number}")]
    assert compiled(with_loads(lines)).scratchpad_bytes == 128


def test_an_op_writes_over_an_operand_that_nobody_needs_any_more():
    lines = [LOAD.format(name="x"), "%y = math.exp %x : {tensor}", STORE.format(name="y")]
    assert compiled(with_loads(lines)).scratchpad_bytes == 128


def product_of_squares(side):
    """x·x, added to itself: the last tensor could lie where the right operand was."""
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


def test_a_right_operand_shares_its_address_with_nothing_while_there_is_room():
    square = 2 * 64 * 64
    shared = compiled(product_of_squares(64))
    product = next(each for each in shared.code if isinstance(each, Matmul))
    others = [
        each.tile
        for each in shared.code
        if isinstance(each, Transfer) and each.tile.address != product.b.address
    ]
    assert len(others) == 3  # all loads and stores but that of the right operand
    for tile in others:
        assert not overlap(
            (tile.address, tile.address + square), (product.b.address, product.b.address + square)
        )
    assert shared.scratchpad_bytes == 3 * square


def test_a_right_operand_shares_its_address_where_there_is_no_room():
    side = 576
    assert 4 * 2 * side * side > 2 << 20 >= 3 * 2 * side * side
    assert compiled(product_of_squares(side)).scratchpad_bytes == 3 * 2 * side * side


def test_too_much_at_once_is_an_error_that_names_the_values():
    lines = [LOAD.format(name=name) for name in ("first", "second", "third")]
    lines += [STORE.format(name=name) for name in ("third", "second", "first")]
    with pytest.raises(ScratchpadOverflowError) as caught:
        compiled(with_loads(lines, elements=400_000))
    message = str(caught.value)
    for part in ("f", "2400000", "2097152", "%first", "%second", "%third", "800000"):
        assert part in message


def test_what_fits_exactly_is_taken():
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


def alive_at_once(count):
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


@pytest.mark.parametrize("kernel", [chained, inserted, alive_at_once, in_loops])
def test_the_work_to_compile_grows_with_the_length_of_the_kernel(kernel):
    """Four times the ops take about four times the steps, not sixteen times.

    Where all values are alive at once, a place is looked for among more of them.
    """
    assert _steps(kernel(1200)) < (8 if kernel is alive_at_once else 4.5) * _steps(kernel(300))


def _steps(text):
    """Lines of Python that are run to compile a kernel: the same at every run, unlike seconds."""
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
