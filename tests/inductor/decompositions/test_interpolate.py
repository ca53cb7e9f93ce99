"""Upsampling, padding and unfolding, with their gradients, eager and compiled."""

import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import (
    assert_close,
    assert_close_to_cpu,
    assert_gradients_close_to_cpu,
    make_tensor,
    mark_heavy,
    to_card,
)

pytestmark = pytest.mark.usefixtures("no_fallbacks")


def to(mode, size, **options):
    return lambda x: F.interpolate(x, size=size, mode=mode, **options)


def by(mode, scale, **options):
    return lambda x: F.interpolate(x, scale_factor=scale, mode=mode, **options)


def pad(mode, *padding):
    return lambda x: F.pad(x, padding, mode=mode)


FORMS = {
    "nearest, twice": (by("nearest", 2), (2, 4, 5, 6)),
    "nearest, less": (to("nearest", (7, 4)), (2, 4, 5, 6)),
    "nearest 1d": (by("nearest", 2.3), (2, 4, 9)),
    "nearest 3d": (to("nearest", (3, 5, 7)), (2, 2, 2, 3, 4)),
    "exact": (to("nearest-exact", (7, 4)), (2, 4, 5, 6)),
    "exact 1d": (by("nearest-exact", 1.5), (2, 4, 9)),
    "the same size": (to("nearest", (5, 6)), (2, 4, 5, 6)),
    "linear": (by("linear", 1.7), (2, 4, 9)),
    "bilinear": (by("bilinear", 2), (2, 4, 5, 70)),
    "bilinear, corners": (to("bilinear", (7, 1), align_corners=True), (2, 4, 5, 6)),
    "bilinear of one": (to("bilinear", (3, 4)), (1, 1, 1, 1)),
    "trilinear": (to("trilinear", (3, 5, 7)), (2, 2, 2, 3, 4)),
    "bicubic": (to("bicubic", (9, 4)), (2, 4, 5, 6)),
    "bicubic, corners": (to("bicubic", (9, 4), align_corners=True), (2, 4, 5, 6)),
    "bilinear, antialiased": (to("bilinear", (9, 4), antialias=True), (2, 4, 5, 11)),
    "bilinear, antialiased by": (by("bilinear", 0.6, antialias=True), (2, 4, 5, 11)),
    "bicubic, antialiased": (to("bicubic", (2, 9), antialias=True), (2, 4, 7, 6)),
    "bicubic, antialiased, corners": (
        to("bicubic", (9, 4), antialias=True, align_corners=True),
        (2, 4, 5, 11),
    ),
    "reflected": (pad("reflect", 1, 2, 3, 0), (2, 4, 5, 6)),
    "reflected 1d": (pad("reflect", 1, 4), (2, 4, 5)),
    "reflected 3d": (pad("reflect", 1, 2, 0, 1, 1, 0), (2, 2, 2, 3, 4)),
    "replicated": (pad("replicate", 1, 2, 7, 0), (2, 4, 5, 6)),
    "replicated, less": (pad("replicate", 1, -2, -1, 0), (2, 4, 5, 6)),
    "replicated 3d": (pad("replicate", 1, 2, 3, 0, 1, 1), (2, 2, 2, 3, 4)),
    "circular": (pad("circular", 1, 2, 2, 0), (2, 4, 5, 6)),
    "shuffled": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 5, 6)),
    "unshuffled": (lambda x: F.pixel_unshuffle(x, 2), (2, 4, 4, 6)),
    "unfolded": (lambda x: F.unfold(x, (3, 2), stride=2, padding=1), (2, 4, 5, 6)),
    "unfolded, dilated": (lambda x: F.unfold(x, 2, dilation=2), (4, 5, 6)),
    "folded": (lambda x: F.fold(x, (5, 6), (3, 2), stride=2, padding=1), (2, 24, 12)),
}


# These cases repeat others along more or fewer dims.
HEAVY = (
    "nearest 3d",
    "exact 1d",
    "bilinear of one",
    "bicubic, corners",
    "bicubic, antialiased, corners",
    "reflected 1d",
    "replicated 3d",
    "unfolded, dilated",
)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("name", mark_heavy(FORMS, *HEAVY))
def test_values_and_gradients(name):
    function, size = FORMS[name]
    assert_gradients_close_to_cpu(function, make_tensor(*size, dtype=torch.float32), units=16)


HALF_DTYPES = [
    "nearest, less",
    "bilinear",
    "bicubic",
    "bicubic, antialiased",
    "reflected",
    "folded",
]


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize("name", HALF_DTYPES)
def test_half_precision(name):
    function, size = FORMS[name]
    assert_gradients_close_to_cpu(function, make_tensor(*size), units=2)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("name", ["nearest, twice", "bilinear", "replicated"])
def test_channels_last(name):
    function, size = FORMS[name]
    x = make_tensor(*size, dtype=torch.float32).contiguous(memory_format=torch.channels_last)
    assert_gradients_close_to_cpu(function, x, units=16)


@pytest.mark.parametrize("name", ["nearest, twice", "reflected", "unfolded"])
def test_non_finite_elements_do_not_spread(name):
    function, size = FORMS[name]
    x = make_tensor(*size, dtype=torch.float32)
    x[0, 0, 1, 2], x[1, 3, 4, 4] = math.inf, math.nan
    assert_close_to_cpu(function, x)


@pytest.mark.parametrize("name", ["nearest, less", "reflected", "replicated"])
def test_non_finite_gradients_do_not_spread(name):
    function, size = FORMS[name]

    def backward(x, upstream):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, upstream)

    x = make_tensor(*size, dtype=torch.float32)
    upstream = make_tensor(*function(x).shape, dtype=torch.float32)
    upstream[0, 0, 1, 2], upstream[1, 3, 4, 3], upstream[1, 1, 0, 0] = math.inf, math.nan, -math.inf
    assert_close(backward(*to_card((x, upstream))), backward(x.double(), upstream.double()))


def test_gradients_of_large_images_are_not_quadratic():
    # 14,400 positions: a tensor of all pairs would take most of a gigabyte.
    assert_gradients_close_to_cpu(
        by("bilinear", 2), make_tensor(1, 2, 60, 60, dtype=torch.float32), units=16
    )


MODES = [("nearest", False), ("nearest-exact", False)] + [
    (mode, antialias) for mode in ("bilinear", "bicubic") for antialias in (False, True)
]


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize(("mode", "antialias"), MODES)
def test_symbolic_sizes(mode, antialias):
    options = {"mode": mode, "antialias": antialias}

    def resized(x, size):
        by_size = F.interpolate(x, (size, size + 1), **options)
        return by_size, F.interpolate(x, scale_factor=1.5, **options)

    compiled = torch.compile(resized, dynamic=True)
    for width, size in ((6, 7), (9, 4)):
        x = make_tensor(2, 4, 5, width, dtype=torch.float32)
        actual = compiled(x.to("spyre"), size)
        assert_close(actual, resized(x.double(), size), units=16)


def test_gradients_of_symbolic_sizes():
    def gradient(x, size):
        x = x.detach().requires_grad_()
        F.interpolate(x, (size, size), mode="bilinear").square().sum().backward()
        return x.grad

    x = make_tensor(2, 4, 5, 6, dtype=torch.float32)
    actual = torch.compile(gradient, dynamic=True)(x.to("spyre"), 7)
    assert_close(actual, gradient(x.double(), 7), units=16)
