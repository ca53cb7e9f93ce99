"""Padding in all modes, of tensors in channels-last memory formats, eager and compiled."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu, assert_gradients_close_to_cpu, make_tensor

pytestmark = pytest.mark.usefixtures("no_fallbacks")

MODES = ("constant", "reflect", "replicate", "circular")
FORMATS = {
    "4d": ((2, 5, 6, 7), torch.channels_last),
    "4d, one channel": ((2, 1, 6, 7), torch.channels_last),
    "4d, whole sticks": ((1, 64, 8, 8), torch.channels_last),
    "5d": ((2, 3, 4, 5, 6), torch.channels_last_3d),
}
AMOUNTS = {
    "positive": (1, 2, 2, 1, 1, 1),
    "mixed": (-1, 2, 2, -1, 0, -1),
    "negative": (-1, -1, -2, -1, -1, -1),
    "one side": (2, 0, 0, 0, 0, 0),
}


def channels_last(name, dtype=torch.float32):
    shape, memory_format = FORMATS[name]
    return make_tensor(*shape, dtype=dtype).to(memory_format=memory_format)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("amounts", AMOUNTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_padding_of_channels_last_tensors(memory_format, mode, amounts, caplog):
    x = channels_last(memory_format)
    pad = AMOUNTS[amounts][: 2 * (x.dim() - 2)]
    assert_close_to_cpu(lambda x: F.pad(2 * x, pad, mode) + 1, x)
    assert "op by op" not in caplog.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool, torch.uint8])
def test_padding_of_channels_last_tensors_of_other_dtypes(dtype):
    assert_close_to_cpu(lambda x: F.pad(x, (1, 2, 2, 1), value=1), channels_last("4d", dtype))


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory_format", ["4d", "5d"])
def test_gradients_of_padding_of_channels_last_tensors(memory_format, mode):
    x = channels_last(memory_format)
    pad = AMOUNTS["positive"][: 2 * (x.dim() - 2)]
    assert_gradients_close_to_cpu(lambda x: F.pad(x, pad, mode), x)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_negative_padding_returns_a_copy(is_compiled):
    x = channels_last("4d").to("spyre")
    before = x.cpu()
    crop = torch.compile(F.pad) if is_compiled else F.pad
    result = crop(x, (-1, -1, -2, -1))
    assert result.stride() == F.pad(before, (-1, -1, -2, -1)).stride()
    result.zero_()
    assert torch.equal(x.cpu(), before)
