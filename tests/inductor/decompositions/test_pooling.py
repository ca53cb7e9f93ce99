"""Pooling and its gradients, eager and compiled."""

import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import (
    assert_close_to_cpu,
    assert_gradients_close_to_cpu,
    make_tensor,
    mark_heavy,
)

pytestmark = pytest.mark.usefixtures("no_fallbacks")

POOLS = {
    "max 3x3": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 4, 7, 8)),
    "max 2x2, rest": (lambda x: F.max_pool2d(x, 2), (2, 4, 7, 70)),
    "max one place": (lambda x: F.max_pool2d(x, 1, 2), (2, 4, 5, 6)),
    "max ceil": (
        lambda x: F.max_pool2d(x, (3, 2), (2, 3), 1, dilation=(2, 1), ceil_mode=True),
        (2, 4, 7, 8),
    ),
    "max gaps": (lambda x: F.max_pool2d(x, 2, 3), (2, 4, 8, 8)),
    "max of one": (lambda x: F.max_pool2d(x, 3, 1, 1), (1, 1, 1, 1)),
    "max no batch": (lambda x: F.max_pool2d(x, 3, 2), (4, 7, 8)),
    "max of nothing": (lambda x: F.max_pool2d(x, 3, 2), (0, 4, 7, 8)),
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 4, 9)),
    "max 3d": (lambda x: F.max_pool3d(x, 2, (2, 1, 2), (0, 1, 0)), (2, 2, 4, 3, 5)),
    "avg 3x3": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 4, 7, 8)),
    "avg ceil": (
        lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, ceil_mode=True, count_include_pad=False),
        (2, 4, 6, 8),
    ),
    "avg ceil with padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 4, 6, 8)),
    "avg by a number": (lambda x: F.avg_pool2d(x, 4, 3, 1, divisor_override=3), (2, 4, 7, 7)),
    "avg gaps": (lambda x: F.avg_pool2d(x, 2, 3), (2, 4, 8, 8)),
    "avg of nothing": (lambda x: F.avg_pool2d(x, 3, 2), (0, 4, 7, 8)),
    "avg 1d": (lambda x: F.avg_pool1d(x, 4, 3, 1), (2, 4, 13)),
    "avg 3d": (lambda x: F.avg_pool3d(x, 3, 2, 1), (2, 2, 4, 5, 6)),
    "adaptive avg": (lambda x: F.adaptive_avg_pool2d(x, (4, 5)), (2, 4, 8, 13)),
    "adaptive avg to one": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 4, 7, 7)),
    "adaptive avg to more": (lambda x: F.adaptive_avg_pool2d(x, (7, 3)), (2, 4, 5, 6)),
    "adaptive avg 1d": (lambda x: F.adaptive_avg_pool1d(x, 5), (2, 4, 13)),
    "adaptive avg 3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 5)), (2, 2, 4, 5, 7)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (4, 5)), (2, 4, 8, 13)),
    "adaptive max, even": (lambda x: F.adaptive_max_pool2d(x, (4, 5)), (2, 4, 8, 10)),
    "adaptive max 1d": (lambda x: F.adaptive_max_pool1d(x, 5), (2, 4, 13)),
    "adaptive max 3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), (2, 2, 4, 5, 3)),
}


# These windows repeat others at other positions or along fewer dims.
HEAVY = (
    "max 2x2, rest",
    "max gaps",
    "max no batch",
    "avg 3x3",
    "avg ceil with padding",
    "avg 1d",
    "adaptive avg 1d",
    "adaptive max, even",
    "adaptive max 1d",
)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("name", mark_heavy(POOLS, *HEAVY))
def test_pooling_and_gradients(name):
    function, size = POOLS[name]
    assert_gradients_close_to_cpu(function, make_tensor(*size, dtype=torch.float32))


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", ["max 3x3", "avg ceil", "adaptive avg", "adaptive max"])
def test_half_precision_pooling(name):
    function, size = POOLS[name]
    assert_gradients_close_to_cpu(function, make_tensor(*size), units=2)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("name", ["max 3x3", "avg 3x3", "adaptive avg"])
def test_channels_last(name):
    function, size = POOLS[name]
    x = make_tensor(*size, dtype=torch.float32).contiguous(memory_format=torch.channels_last)
    assert_gradients_close_to_cpu(function, x)


INDICES = {
    "padded": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "dilated": lambda x: F.max_pool2d(
        x, (4, 2), (3, 1), (2, 1), (1, 2), ceil_mode=True, return_indices=True
    ),
    "adaptive": lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True),
    "adaptive, even": lambda x: F.adaptive_max_pool2d(x, (3, 11), return_indices=True),
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", INDICES)
def test_max_pool_indices_of_ties_and_nan(name):
    x = make_tensor(2, 3, 9, 11, dtype=torch.float32).round()
    x[0, 0, 2, 3] = x[0, 0, 2, 4] = x[0, 0, 4, 4] = math.nan
    x[1, 0, :5, :5] = -math.inf
    x[1, 1, 2, 2] = math.inf
    assert_close_to_cpu(INDICES[name], x)


def test_infinities_do_not_spread():
    x = make_tensor(1, 2, 6, 7, dtype=torch.float32)
    x[0, 0, 2, 3] = math.inf
    assert_close_to_cpu(lambda x: (F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 4)), x)


WITHOUT_EFFECT = {
    "largest of one": lambda x: F.max_pool2d(x, 1),
    "largest of windows of one": lambda x: F.adaptive_max_pool2d(x, (None, None)),
    "averages of windows of one": lambda x: F.adaptive_avg_pool2d(x, (None, None)),
    "averages of one": lambda x: F.avg_pool2d(x, 1),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_identity_pooling_returns_a_copy(name):
    pool = WITHOUT_EFFECT[name]
    for call in (pool, torch.compile(pool)):
        spread = make_tensor(2, 4, 5, 6, 2, dtype=torch.float32)
        for x in (spread[..., 0], spread[..., 1].contiguous()):
            card = x.to("spyre")
            actual = call(card)
            actual += 1
            assert torch.equal(card.cpu(), x) and actual.is_contiguous()
            assert torch.equal(actual.cpu(), x + 1)
