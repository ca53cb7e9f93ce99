"""Loops that would reach too far in a tensor are cut; with a limit that small tensors pass."""

import logging
from dataclasses import replace

import pytest
import torch
from comparing import assert_close, exact, numbers, on_card
from loop_bundles import C0, C1, R0, bundle, load, loop, step, tensor, total

from torch_spyre import knobs
from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor import pipeline
from torch_spyre._inductor.loop_ir import Coordinate, traverse
from torch_spyre._inductor.passes.loop_splitting import split_long_loops
from torch_spyre.errors import SpanLimitError
from torch_spyre.testing.cards import write_card

LIMIT = 100_000
WORDS = 37 * 64 - 10  # 37 sticks: no number of cores divides them


def card_with_span_limit(tmp_path, limit):
    torch.spyre.init()  # the emulated card itself keeps its limits
    path = write_card(tmp_path / f"card{limit}.yaml", {"memory.span_limit_bytes": limit})
    return knobs.override(SPYRE_CARD=str(path))


@pytest.fixture(autouse=True)
def small_span_limit(tmp_path):
    with card_with_span_limit(tmp_path, LIMIT):
        torch._dynamo.reset()
        yield


GRAPHS = {
    "product": lambda table, x: x @ table.t(),
    "product with what follows": lambda table, x: torch.relu(x @ table.t()) * 2,
    "product with numbers": lambda table, x: (
        (x @ table.t()) * torch.arange(WORDS, device=x.device) * 0.001
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_parts_make_the_whole_without_a_word(name, native, caplog):
    table, x = on_card((numbers(WORDS, 64), numbers(3, 64)))
    before = torch.spyre.counters()["launches"]
    with caplog.at_level(logging.WARNING), torch._inductor.config.patch(fx_graph_cache=False):
        found = torch.compile(GRAPHS[name], fullgraph=True)(table, x)
    assert not [each for each in caplog.records if each.name.startswith("spyre")]
    assert torch.spyre.counters()["launches"] - before >= 2
    assert_close(found, GRAPHS[name](*exact((table, x))), units=8, scale=4.0)


def test_a_table_that_no_number_of_cores_divides_is_turned_in_two_parts(native, tmp_path):
    """Where words lie along sticks, as in tables that are weights of linear layers too."""
    layout = SpyreTensorLayout([WORDS, 256], [256, 1], torch.float16, [1, 0])
    table, ids = numbers(WORDS, 256), torch.tensor([5, WORDS - 1, 0])
    moved = table.to("spyre", device_layout=layout)
    before = torch.spyre.counters()["launches"]
    with card_with_span_limit(tmp_path, 800_000):  # of 1.2 MB
        found = torch.compile(torch.nn.functional.embedding)(ids.to("spyre"), moved)
    assert torch.spyre.counters()["launches"] - before == 3  # the last gathers
    assert torch.equal(found.cpu(), moved.cpu()[ids])


# --- what is cut, without running it --------------------------------------------------------------


def cut(ops, tensors, results, check_spans=pipeline._check_spans):
    whole = bundle(ops, tensors, results)
    return split_long_loops(replace(whole, groups=(tuple(ops),)), check_spans).groups


def rows_and_words(op, words=WORDS, rows=32):
    x, a = tensor("x", rows, words), tensor("a", rows, words)
    value = step(op, load("x", words * C0 + C1))
    return [loop("a", {C0: rows, C1: words}, value, words * C0 + C1)], [x, a], ["a"]


def test_what_can_be_divided_is_not_cut():
    ((op,),) = cut(*rows_and_words("neg", words=32 * 64))
    assert op.sizes == {C0: 32, C1: 32 * 64}


def test_small_tensors_are_not_even_looked_at():
    ((op,),) = cut(*rows_and_words("neg", words=64, rows=2), check_spans=None)
    assert op.sizes == {C0: 2, C1: 64}


def test_parts_are_sticks_that_all_cores_share_and_the_rest():
    groups = cut(*rows_and_words("neg"))
    sizes = [op.sizes[C1] for (op,) in groups]
    starts = [int(op.write.subs({C0: 0, C1: 0})) for (op,) in groups]
    assert sizes == [32 * 64, WORDS - 32 * 64]
    assert starts == [0, 32 * 64]
    # Reads move along with writes.
    assert [int(op.loads[0].index.subs({C0: 0, C1: 0})) for (op,) in groups] == starts


def test_numbers_made_of_coordinates_move_along():
    ops, tensors, results = rows_and_words("neg")
    numbered = step("add", load("x", WORDS * C0 + C1), Coordinate(C1, torch.float16))
    groups = cut([replace(ops[0], value=numbered)], tensors, results)
    (second,) = groups[1]
    (number,) = [each for each in traverse([second.value]) if isinstance(each, Coordinate)]
    assert number.expression == C1 + groups[0][0].sizes[C1]


def test_ops_without_the_symbol_stay_in_every_part():
    ops, tensors, results = rows_and_words("neg")
    rows = loop("b", {C0: 32}, step("abs", load("y", C0)), C0)
    tensors += [tensor("y", 32), tensor("b", 32)]
    groups = cut([*ops, rows], tensors, [*results, "b"])
    assert [[op.name for op in group] for group in groups] == [["a", "b"]] * len(groups)
    assert sum(group[0].sizes[C1] for group in groups) == WORDS and len(groups) > 1
    assert all(group[1] is rows for group in groups)


def test_what_is_folded_is_not_cut():
    value = load("x", WORDS * C0 + R0)
    ops = [total("a", {C0: 37, R0: WORDS}, value, C0, (R0,))]
    with pytest.raises(SpanLimitError, match="reaches"):
        cut(ops, [tensor("x", 37, WORDS), tensor("a", 37)], ["a"])


def test_tensors_of_every_op_count():
    """Not only those of the op that decides on the splits: the first, which has none here."""
    ops, tensors, results = rows_and_words("neg")
    numbered = step("add", load("x", WORDS * C0 + C1), Coordinate(C1, torch.float16))
    assert len(cut([replace(ops[0], value=numbered)], tensors, results)) > 1
