"""Tests of splitting loops that exceed the span limit, with a limit that small tensors exceed."""

import logging
from dataclasses import replace

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from loop_bundles import C0, C1, R0, bundle, load, loop, step, tensor, total

from torch_spyre import knobs
from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor import pipeline
from torch_spyre._inductor.loop_ir import Coordinate, traverse
from torch_spyre._inductor.passes.loop_splitting import split_long_loops
from torch_spyre.errors import SpanLimitError
from torch_spyre.testing.cards import write_card

LIMIT = 100_000
COLUMNS = 37 * 64 - 10  # 37 sticks, which no core count divides


def card_with_span_limit(tmp_path, limit):
    torch.spyre.init()  # the emulated card itself is not changed
    path = write_card(tmp_path / f"card{limit}.yaml", {"memory.span_limit_bytes": limit})
    return knobs.override(SPYRE_CARD=str(path))


@pytest.fixture(autouse=True)
def small_span_limit(tmp_path):
    with card_with_span_limit(tmp_path, LIMIT):
        torch._dynamo.reset()
        yield


GRAPHS = {
    "matmul": lambda table, x: x @ table.t(),
    "matmul with epilogue": lambda table, x: torch.relu(x @ table.t()) * 2,
    "matmul with coordinates": lambda table, x: (
        (x @ table.t()) * torch.arange(COLUMNS, device=x.device) * 0.001
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_split_loops_compute_the_same_without_warnings(name, no_fallbacks, caplog):
    table, x = to_card((make_tensor(COLUMNS, 64), make_tensor(3, 64)))
    before = torch.spyre.counters()["launches"]
    with caplog.at_level(logging.WARNING), torch._inductor.config.patch(fx_graph_cache=False):
        actual = torch.compile(GRAPHS[name], fullgraph=True)(table, x)
    assert not [record for record in caplog.records if record.name.startswith("spyre")]
    assert torch.spyre.counters()["launches"] - before >= 2
    assert_close(actual, GRAPHS[name](*to_reference((table, x))), units=8, scale=4.0)


def test_a_table_that_no_core_count_divides_is_restickified_in_two_loops(no_fallbacks, tmp_path):
    """Rows lie along sticks, as in tables that are also weights of linear layers."""
    layout = SpyreTensorLayout([COLUMNS, 256], [256, 1], torch.float16, [1, 0])
    table, ids = make_tensor(COLUMNS, 256), torch.tensor([5, COLUMNS - 1, 0])
    on_device = table.to("spyre", device_layout=layout)
    before = torch.spyre.counters()["launches"]
    with card_with_span_limit(tmp_path, 800_000):  # of 1.2 MB
        actual = torch.compile(torch.nn.functional.embedding)(ids.to("spyre"), on_device)
    assert torch.spyre.counters()["launches"] - before == 3  # the last gathers
    assert torch.equal(actual.cpu(), on_device.cpu()[ids])


# --- the pass on hand-written loops ---------------------------------------------------------------


def split(ops, tensors, results, check_spans=pipeline._check_spans):
    kernel = bundle(ops, tensors, results)
    return split_long_loops(replace(kernel, groups=(tuple(ops),)), check_spans).groups


def rows_and_columns(op, columns=COLUMNS, rows=32):
    x, a = tensor("x", rows, columns), tensor("a", rows, columns)
    value = step(op, load("x", columns * C0 + C1))
    return [loop("a", {C0: rows, C1: columns}, value, columns * C0 + C1)], [x, a], ["a"]


def test_loops_that_cores_can_divide_are_not_split():
    ((op,),) = split(*rows_and_columns("neg", columns=32 * 64))
    assert op.sizes == {C0: 32, C1: 32 * 64}


def test_small_tensors_are_not_checked():
    ((op,),) = split(*rows_and_columns("neg", columns=64, rows=2), check_spans=None)
    assert op.sizes == {C0: 2, C1: 64}


def test_loops_are_split_into_sticks_for_all_cores_and_a_remainder():
    groups = split(*rows_and_columns("neg"))
    sizes = [op.sizes[C1] for (op,) in groups]
    starts = [int(op.write.subs({C0: 0, C1: 0})) for (op,) in groups]
    assert sizes == [32 * 64, COLUMNS - 32 * 64]
    assert starts == [0, 32 * 64]
    # Reads have the same offsets as writes.
    assert [int(op.loads[0].index.subs({C0: 0, C1: 0})) for (op,) in groups] == starts


def test_coordinates_are_offset_in_split_loops():
    ops, tensors, results = rows_and_columns("neg")
    value = step("add", load("x", COLUMNS * C0 + C1), Coordinate(C1, torch.float16))
    groups = split([replace(ops[0], value=value)], tensors, results)
    (second,) = groups[1]
    (coordinate,) = [node for node in traverse([second.value]) if isinstance(node, Coordinate)]
    assert coordinate.expression == C1 + groups[0][0].sizes[C1]


def test_ops_without_the_split_symbol_are_in_every_group():
    ops, tensors, results = rows_and_columns("neg")
    rows = loop("b", {C0: 32}, step("abs", load("y", C0)), C0)
    tensors += [tensor("y", 32), tensor("b", 32)]
    groups = split([*ops, rows], tensors, [*results, "b"])
    assert [[op.name for op in group] for group in groups] == [["a", "b"]] * len(groups)
    assert sum(group[0].sizes[C1] for group in groups) == COLUMNS and len(groups) > 1
    assert all(group[1] is rows for group in groups)


def test_reduced_loops_are_not_split():
    value = load("x", COLUMNS * C0 + R0)
    ops = [total("a", {C0: 37, R0: COLUMNS}, value, C0, (R0,))]
    with pytest.raises(SpanLimitError, match="reaches"):
        split(ops, [tensor("x", 37, COLUMNS), tensor("a", 37)], ["a"])


def test_the_tensors_of_every_op_are_checked():
    """The first op, which determines the splits, has no tensors here."""
    ops, tensors, results = rows_and_columns("neg")
    value = step("add", load("x", COLUMNS * C0 + C1), Coordinate(C1, torch.float16))
    assert len(split([replace(ops[0], value=value)], tensors, results)) > 1
