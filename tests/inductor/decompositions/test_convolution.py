"""Convolutions and grouped matmuls, eager and compiled."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import (
    assert_close_to_cpu,
    assert_gradients_close_to_cpu,
    make_tensor,
    mark_heavy,
)
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("no_fallbacks")

FORMS = {
    "patches": lambda x: F.conv2d(x, numbers_like(x, 5, 4, 3, 3), stride=3),
    "padded": lambda x: F.conv2d(x, numbers_like(x, 5, 4, 3, 2), numbers_like(x, 5), 2, (1, 2)),
    "dilated groups": lambda x: F.conv2d(x, numbers_like(x, 6, 2, 2, 2), dilation=2, groups=2),
    "depthwise": lambda x: F.conv2d(x, numbers_like(x, 4, 1, 3, 3), padding=1, groups=4),
    "causal": lambda x: F.conv1d(
        x.flatten(-2), numbers_like(x, 4, 1, 4), numbers_like(x, 4), padding=3, groups=4
    )[..., :70],
    "one place": lambda x: F.conv1d(x.flatten(-2), numbers_like(x, 3, 4, 1)),
}


def numbers_like(x, *shape):
    return WEIGHTS[shape].to(x.device, x.dtype)


SIZES = [(5, 4, 3, 3), (5, 4, 3, 2), (5,), (6, 2, 2, 2), (4, 1, 3, 3), (4, 1, 4), (4,), (3, 4, 1)]
WEIGHTS = {shape: make_tensor(*shape) for shape in SIZES}


@pytest.mark.parametrize("form", FORMS)
def test_convolutions(form):
    assert_close_to_cpu(FORMS[form], make_tensor(2, 4, 7, 10), units=8, scale=4)


# Overlapping windows whose step has no simple ratio to their size: sizes of input, kernel, options.
OVERLAPPING = {
    "1d": ((2, 1, 163), (8, 1, 16), {"stride": 10}),
    "1d, padded": ((1, 1, 400), (8, 1, 25), {"stride": 10, "padding": 12}),
    "2d": ((1, 2, 40, 47), (4, 2, 10, 10), {"stride": 5}),
    "2d, odd": ((1, 2, 33, 29), (4, 2, 9, 9), {"stride": 6}),
    "2d, large": ((1, 1, 40, 46), (4, 1, 16, 16), {"stride": 10}),
}


@pytest.mark.parametrize("form", mark_heavy(OVERLAPPING, "2d, large"))
def test_windows_that_overlap_by_any_amount(form, caplog):
    size, kernel, options = OVERLAPPING[form]
    function = F.conv1d if len(kernel) == 3 else F.conv2d
    x, weight = make_tensor(*size, dtype=torch.float32), make_tensor(*kernel, dtype=torch.float32)
    assert_close_to_cpu(lambda *args: F.relu(function(*args, **options)), x, weight, scale=8)
    assert "op by op" not in caplog.text


@pytest.mark.heavy
@pytest.mark.filterwarnings("error")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_kernel_stride_dilation_and_padding(data):
    dims = data.draw(st.integers(1, 2), "dims")
    largest = 16 if dims == 1 else 6
    draw = {
        name: [data.draw(st.integers(low, high), name) for _ in range(dims)]
        for name, low, high in (
            ("kernel", 1, largest),
            ("stride", 1, largest),
            ("dilation", 1, 3),
            ("padding", 0, 3),
            ("extra", 0, 40 if dims == 1 else 12),
        )
    }
    size = [
        dilation * (kernel - 1) + 1 + extra
        for kernel, dilation, extra in zip(
            draw["kernel"], draw["dilation"], draw["extra"], strict=True
        )
    ]
    options = {name: tuple(draw[name]) for name in ("stride", "dilation", "padding")}
    function = F.conv1d if dims == 1 else F.conv2d
    x = make_tensor(2, 2, *size, dtype=torch.float32)
    weight = make_tensor(3, 2, *draw["kernel"], dtype=torch.float32)
    assert_close_to_cpu(lambda *args: function(*args, **options), x, weight, scale=8)


# Sizes of the input and of the kernel, and the options.
CONVOLUTIONS = {
    "3x3": ((2, 8, 6, 7), (6, 8, 3, 3), {"padding": 1}),
    "steps": ((2, 4, 7, 8), (6, 4, 3, 3), {"padding": (0, 1), "stride": 2}),
    "dilated groups": (
        (2, 6, 9, 8),
        (4, 3, 2, 3),
        {"padding": (2, 1), "dilation": 2, "groups": 2, "stride": (3, 2)},
    ),
    "depthwise": ((2, 4, 5, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "several of each channel": ((2, 4, 5, 6), (8, 1, 3, 3), {"groups": 4}),
    "patches": ((2, 3, 9, 8), (6, 3, 4, 4), {"stride": 4}),
    "one place": ((2, 8, 5, 70), (6, 8, 1, 1), {}),
    "one place, steps": ((2, 8, 5, 6), (6, 8, 1, 1), {"stride": 2}),
    "one of everything": ((1, 1, 1, 1), (1, 1, 3, 3), {"padding": 1}),
    "no batch": ((8, 5, 6), (6, 8, 3, 3), {"padding": 1}),
    "of nothing": ((0, 8, 5, 6), (6, 8, 3, 3), {"padding": 1}),
    "1d": ((2, 8, 20), (6, 8, 3), {"padding": 1, "stride": 2}),
    "3d": ((2, 3, 4, 5, 6), (4, 3, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
}
TRANSPOSED = {
    "steps": ((2, 8, 4, 5), (8, 6, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "patches": ((2, 8, 4, 5), (8, 6, 2, 2), {"stride": 2}),
    "cut patches": ((2, 4, 4, 5), (4, 6, 3, 3), {"stride": 3, "padding": 1}),
    "dilated groups": (
        (2, 8, 4, 5),
        (8, 3, 3, 3),
        {"stride": 3, "padding": 2, "dilation": 2, "groups": 2},
    ),
    "more padding than kernel": ((2, 3, 5, 6), (3, 2, 2, 2), {"padding": 2}),
    "output padding of more than a step": (
        (2, 4, 4),
        (4, 2, 3),
        {"stride": 2, "padding": 2, "output_padding": 3, "dilation": 4, "groups": 2},
    ),
    "of nothing": ((0, 8, 4, 5), (8, 6, 3, 3), {"stride": 2}),
    "1d": ((2, 8, 7), (8, 3, 5), {"stride": 3}),
    "3d": ((2, 3, 2, 3, 4), (3, 2, 2, 3, 2), {"stride": 2, "padding": 1}),
}
FORWARD = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
BACKWARD = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize(
    "form", mark_heavy(CONVOLUTIONS, "several of each channel", "no batch", "one place, steps")
)
def test_gradients(form):
    size, kernel, options = CONVOLUTIONS[form]
    function = FORWARD[len(kernel) - 2]
    x, weight, bias = (
        make_tensor(*shape, dtype=torch.float32) for shape in (size, kernel, kernel[:1])
    )
    assert_gradients_close_to_cpu(lambda *given: function(*given, **options), x, weight, bias)


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize("form", mark_heavy(TRANSPOSED, "cut patches", "more padding than kernel"))
def test_transposed_convolutions_and_gradients(form):
    size, kernel, options = TRANSPOSED[form]
    function = BACKWARD[len(kernel) - 2]
    made = kernel[1] * options.get("groups", 1)
    x, weight, bias = (
        make_tensor(*shape, dtype=torch.float32) for shape in (size, kernel, (made,))
    )
    assert_gradients_close_to_cpu(lambda *given: function(*given, **options), x, weight, bias)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("function", [F.conv2d, F.conv_transpose2d])
def test_half_precision_gradients(function):
    x, weight = make_tensor(2, 8, 6, 7), make_tensor(8, 8, 3, 3)
    assert_gradients_close_to_cpu(lambda *given: function(*given, stride=2, padding=1), x, weight)


def test_channels_last_and_permuted_dims():
    x, weight = (
        make_tensor(2, 8, 6, 7, dtype=torch.float32),
        make_tensor(6, 8, 3, 3, dtype=torch.float32),
    )
    last = x.contiguous(memory_format=torch.channels_last)
    assert_gradients_close_to_cpu(
        lambda *given: F.conv2d(*given, stride=2, padding=1), last, weight
    )
    assert_gradients_close_to_cpu(lambda x, w: F.conv2d(x.transpose(2, 3)[:, :, 1:], w), x, weight)


def test_output_mask_selects_gradients():
    x, weight = make_tensor(2, 8, 6, 7).to("spyre"), make_tensor(6, 8, 3, 3).to("spyre")
    gradient = torch.ones(2, 6, 4, 5, dtype=x.dtype, device="spyre")
    options = [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    backward = torch.ops.aten.convolution_backward
    actual = backward(gradient, x, weight, *options, [False, False, True])
    assert actual[0] is None and actual[1] is None
    assert torch.equal(actual[2].cpu(), torch.full((6,), 40.0, dtype=x.dtype))


@pytest.mark.parametrize("groups", [2, 16])
def test_grouped_rows_use_the_matrix_of_their_group(groups):
    ends = torch.tensor([2, 5] if groups == 2 else [0, 1, *[3] * 13, 5], dtype=torch.int32)

    def grouped(x, factors, ends):
        member = torch.arange(5, device=x.device).unsqueeze(-1) >= ends
        result = torch.bmm(x.unsqueeze(1), factors[member.sum(-1)]).squeeze(1)
        if x.device.type == "cpu":
            return result
        return torch.ops.aten._grouped_mm(x, factors, ends)

    # PyTorch traces the op in no other type.
    rows, factors = (
        make_tensor(*size, dtype=torch.bfloat16) for size in [(5, 64), (groups, 64, 8)]
    )
    assert_close_to_cpu(grouped, rows, factors, ends, units=8, scale=8)
