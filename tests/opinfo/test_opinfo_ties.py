import math

import pytest
import torch

from torch_spyre.opinfo import places
from torch_spyre.testing.op_samples import Arguments


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "dim"),
    [
        ("topk", (3, 1, True), {}, 1),
        ("topk", (3,), {"largest": False}, -1),
        ("kthvalue", (2, 0), {}, 0),
        ("median", (), {}, None),
        ("median", (1,), {"keepdim": True}, 1),
        ("sort", (), {}, -1),
        ("sort", (0,), {"stable": True}, None),
        ("argsort", (), {"dim": 1, "stable": False}, 1),
        ("argmax", (1,), {}, None),
    ],
)
def test_places_are_free_along_the_dim_that_is_searched(name, args, kwargs, dim):
    assert places.dim_of(name, Arguments(torch.zeros(3, 3), args, kwargs)) == dim


ROW = torch.tensor([5.0, 7.0, 5.0, math.nan, math.nan])


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ([0], [2], True),
        ([0, 2], [2, 0], True),
        ([3], [4], True),  # neither is a number
        ([0], [1], False),
        ([0], [3], False),
        ([0, 0], [2, 0], False),  # one of them twice
        ([5], [0], False),
        ([-3], [2], False),
        ([0], [0, 2], False),
    ],
)
def test_equal_elements_stand_for_each_other(got, wanted, same):
    one, other = torch.tensor(got), torch.tensor(wanted)
    assert places.are_of_equals(ROW, 0, one, other) is same


def test_a_dim_that_is_left_out_is_searched_all_the_same():
    rows = torch.stack([ROW, ROW.flip(0)])
    assert places.are_of_equals(rows, 1, torch.tensor([0, 4]), torch.tensor([2, 2]))
    assert not places.are_of_equals(rows, 1, torch.tensor([0, 0]), torch.tensor([2, 2]))


def test_other_types_and_numbers_alone():
    zero = torch.tensor(0)
    assert places.are_of_equals(torch.tensor(7), 0, zero, zero)
    assert not places.are_of_equals(torch.tensor(7), 0, zero.to(torch.int32), zero)
