"""Indices in the padding of a last stick are whatever memory held, and must not be followed."""

import pytest
import torch

ROWS = 33  # A stick of int32 and one more.
GIVEN = torch.arange(2 * ROWS).reshape(2, ROWS)


def with_dirty_padding() -> torch.Tensor:
    whole = torch.full((2, 64), 1 << 30, dtype=torch.int64)
    whole[:, :ROWS] = GIVEN
    return whole.to("spyre")[:, :ROWS]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, index: table[index],
        lambda table, index: table[index + 0],
        lambda table, index: table.expand(2, -1).gather(1, index * 1),
    ],
)
def test_padding_of_index_tensors_is_not_dereferenced(look_up, compiled):
    table = torch.arange(130)
    call = torch.compile(look_up) if compiled else look_up
    actual = call(table.to("spyre"), with_dirty_padding())
    assert actual.tolist() == look_up(table, GIVEN).tolist()
