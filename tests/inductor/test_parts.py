"""Loops that would reach too far in a tensor are cut; with a limit that small tensors pass."""

from functools import partial

import pytest
import torch
from comparing import assert_close, exact, numbers, on_card

from torch_spyre._inductor import pipeline
from torch_spyre._inductor.passes import division

LIMIT = 100_000
WORDS = 37 * 64 - 10  # 37 sticks: no number of cores divides them


@pytest.fixture(autouse=True)
def short_reach(monkeypatch):
    monkeypatch.setattr(pipeline, "SPAN_LIMIT_BYTES", LIMIT)
    monkeypatch.setattr(division, "divide", partial(division.divide, span_limit=LIMIT))
    torch._dynamo.reset()


GRAPHS = {
    "product": lambda table, x: x @ table.t(),
    "product with what follows": lambda table, x: torch.relu(x @ table.t()) * 2,
    "product with numbers": lambda table, x: (
        (x @ table.t()) * torch.arange(WORDS, device=x.device) * 0.001
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_parts_make_the_whole(name, native):
    table, x = on_card((numbers(WORDS, 64), numbers(3, 64)))
    before = torch.spyre.counters()["launches"]
    found = torch.compile(GRAPHS[name], fullgraph=True)(table, x)
    assert torch.spyre.counters()["launches"] - before >= 2
    assert_close(found, GRAPHS[name](*exact((table, x))), units=8, scale=4.0)
