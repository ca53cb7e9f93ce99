import math

import pytest
import torch

from torch_spyre.testing.tolerances import ULP_OF_ONE, difference, tolerance


@pytest.mark.parametrize("dtype", ULP_OF_ONE)
def test_only_errors_beyond_the_tolerance_are_differences(dtype):
    ones = torch.ones(4, dtype=torch.float64)
    allowed = 2 * tolerance(dtype, 8)  # of the value itself, and of the largest
    near, far = ones.clone(), ones.clone()
    near[2] += 0.9 * allowed
    far[2] += 1.2 * allowed
    expected = ones.to(dtype)
    # Compared as float64, so that the rounding of the dtype does not matter.
    assert difference(near, expected, 8) is None
    assert difference(far, expected, 8).startswith("1 of 4 elements differ; the worst at (2,)")


def test_non_finite_values_must_be_equal():
    inf, nan = math.inf, math.nan
    expected = torch.tensor([inf, -inf, nan, 1.0])
    assert difference(expected.clone(), expected) is None
    for index, value in ((0, 1.0), (0, -inf), (1, nan), (2, 1.0), (3, nan), (3, inf)):
        actual = expected.clone()
        actual[index] = value
        assert f"the worst at ({index},)" in difference(actual, expected)


def test_integers_must_be_equal():
    expected = torch.tensor([[1, 2], [3, 2**31]])
    assert difference(expected.clone(), expected) is None
    assert "got 2, expected 3" in difference(torch.tensor([[1, 2], [2, 2**31]]), expected)


def test_tolerance_is_relative_to_the_largest_element():
    expected = torch.tensor([1000.0, 1e-6])
    assert difference(expected + torch.tensor([0.0, 1e-3]), expected) is None
    assert difference(torch.tensor([1e-3]), torch.tensor([1e-6])) is not None
    assert difference(torch.tensor([1e-3]), torch.tensor([1e-6]), extra_error=1e-2) is None


def test_tensors_without_elements_do_not_differ():
    assert difference(torch.empty(0, 3), torch.empty(0, 3)) is None
