"""grid_sample and its gradients, eager and compiled."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import (
    assert_close,
    assert_close_to_cpu,
    assert_gradients_close_to_cpu,
    make_tensor,
    to_card,
    to_reference,
)

MODES = ["bilinear", "nearest", "bicubic"]
PADDINGS = ["zeros", "border", "reflection"]
QUICK = {("bilinear", "reflection", False)}


def sampled(mode, padding, align):
    return lambda x, grid: F.grid_sample(x, grid, mode, padding, align)


# Positions beyond the borders too, but none where rounding would select another element.
def grid(*shape):
    return (
        make_tensor(*shape, low=-1.7, high=1.7, dtype=torch.float32).mul(512).floor().add(0.5) / 512
    )


CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.heavy)
    for case in product(MODES, PADDINGS, (False, True))
]


@pytest.mark.parametrize(("mode", "padding", "align"), CASES)
def test_gradients_of_input_and_grid(mode, padding, align, no_fallbacks):
    x = make_tensor(2, 3, 5, 7, dtype=torch.float32)
    assert_gradients_close_to_cpu(sampled(mode, padding, align), x, grid(2, 4, 3, 2), units=64)


@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        pytest.param("bilinear", "zeros", marks=pytest.mark.heavy),
        pytest.param("bilinear", "reflection", marks=pytest.mark.heavy),
        pytest.param("nearest", "border", marks=pytest.mark.heavy),
    ],
)
def test_volumes(mode, padding, no_fallbacks):
    x = make_tensor(1, 2, 3, 4, 5, dtype=torch.float32)
    assert_gradients_close_to_cpu(sampled(mode, padding, False), x, grid(1, 2, 3, 2, 3), units=64)


def test_half_precision(no_fallbacks):
    x, places = make_tensor(2, 3, 5, 7), grid(2, 4, 3, 2).half()
    assert_close_to_cpu(sampled("bilinear", "zeros", False), x, places, units=8)


def test_non_finite_elements_do_not_spread(no_fallbacks):
    x = make_tensor(1, 1, 4, 4, dtype=torch.float32)
    x[0, 0, 0, 0], x[0, 0, 3, 3] = math.inf, math.nan
    card = to_card((x, grid(1, 5, 6, 2)))
    run = sampled("bilinear", "zeros", False)
    assert_close(run(*card), run(*to_reference(card)), units=64)


def test_invalid_shapes_raise_as_on_the_cpu():
    x, places = torch.zeros(2, 3, 5, 7), torch.zeros(3, 4, 3, 2)
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x.to("spyre"), places.to("spyre"), align_corners=False)
