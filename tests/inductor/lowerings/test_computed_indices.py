"""Indices that a graph computes itself, from nothing, and looks at through views."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu

TABLE = torch.arange(64 * 128).reshape(64, 128) % 509


def numbers(table: torch.Tensor, *size: int) -> torch.Tensor:
    count = torch.Size(size).numel()
    return torch.arange(count, device=table.device).view(size)


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table: F.embedding((numbers(table, 5) + 0).unsqueeze(0), table),
        lambda table: F.embedding(numbers(table, 2, 3).expand(4, 2, 3), table),
        lambda table: table[numbers(table, 5)[:, None] % 3, numbers(table, 4)],
        lambda table: table.gather(1, numbers(table, 2, 5).t()),
        lambda table: table.index_select(0, (numbers(table, 2, 3) * 2).t()[1]),
    ],
)
def test_gather_with_views_of_computed_indices(look_up, caplog):
    actual = torch.compile(look_up)(TABLE.half().to("spyre"))
    assert actual.tolist() == look_up(TABLE.half()).tolist()
    assert "op by op" not in caplog.text


def shifted(table, _):
    """Rows one element shorter, which begin in each other's row, as relative positions do."""
    short = table.reshape(128, 64)[1:].reshape(64, 127)
    return short.index_select(1, torch.arange(64, device=table.device))


PLACES = torch.tensor([[0, 3, 2], [1, 1, 5]])


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, places: table[:, 3:][:, places[0]],
        lambda table, places: table[1:][places],
        lambda table, places: table[1:, 3:][places[0]],
        lambda table, places: table[:, ::2][:, places[1]],
        lambda table, places: table[:2, 3:9].gather(1, places),
        lambda table, places: table.unfold(1, 6, 2)[:, places[0]],
        lambda table, places: table.unfold(1, 6, 1)[:, :, places[0]],
        lambda table, places: F.embedding(places, table[1:, 3:]),
        shifted,
    ],
)
def test_gather_from_slices_of_tables(look_up, caplog):
    actual = torch.compile(look_up)(TABLE.half().to("spyre"), PLACES.to("spyre"))
    assert actual.tolist() == look_up(TABLE.half(), PLACES).tolist()
    assert "op by op" not in caplog.text


def counted_below(table, index, bounds):
    return (~(table[index] >= bounds[:, None])).to(torch.int32).sum(-1)


def test_reduction_over_many_tiles_gathers_each_tile(no_fallbacks):
    """Which are all that changes from tile to tile."""
    table = (torch.arange(400) // 40).to(torch.int8)
    bounds = (torch.arange(400) % 7).to(torch.int8)
    assert_close_to_cpu(counted_below, table, torch.arange(400).flip(0), bounds)
