import math

import pytest
import torch

from torch_spyre.opinfo import ties
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
def test_ties_are_possible_along_the_dim_of_the_search(name, args, kwargs, dim):
    assert ties.tie_dim(name, Arguments(torch.zeros(3, 3), args, kwargs)) == dim


ROW = torch.tensor([5.0, 7.0, 5.0, math.nan, math.nan])


@pytest.mark.parametrize(
    ("actual", "expected", "is_tie"),
    [
        ([0], [2], True),
        ([0, 2], [2, 0], True),
        ([3], [4], True),  # both are NaN
        ([0], [1], False),
        ([0], [3], False),
        ([0, 0], [2, 0], False),  # a duplicate
        ([5], [0], False),
        ([-3], [2], False),
        ([0], [0, 2], False),
    ],
)
def test_indices_of_equal_elements_are_equivalent(actual, expected, is_tie):
    assert ties.differ_only_in_ties(ROW, 0, torch.tensor(actual), torch.tensor(expected)) is is_tie


def test_indices_may_lack_the_reduced_dim():
    rows = torch.stack([ROW, ROW.flip(0)])
    assert ties.differ_only_in_ties(rows, 1, torch.tensor([0, 4]), torch.tensor([2, 2]))
    assert not ties.differ_only_in_ties(rows, 1, torch.tensor([0, 0]), torch.tensor([2, 2]))


def test_0d_tensors_and_other_dtypes():
    zero = torch.tensor(0)
    assert ties.differ_only_in_ties(torch.tensor(7), 0, zero, zero)
    assert not ties.differ_only_in_ties(torch.tensor(7), 0, zero.to(torch.int32), zero)
