"""Convolutions and products of groups, eager and compiled."""

import pytest
import torch
import torch.nn.functional as F
from comparing import check_both, numbers

pytestmark = pytest.mark.usefixtures("native")

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
WEIGHTS = {shape: numbers(*shape) for shape in SIZES}


@pytest.mark.parametrize("form", FORMS)
def test_convolutions(form):
    check_both(FORMS[form], numbers(2, 4, 7, 10), units=8, scale=4)


@pytest.mark.parametrize("groups", [2, 16])
def test_rows_meet_the_factors_of_their_group(groups):
    ends = torch.tensor([2, 5] if groups == 2 else [0, 1, *[3] * 13, 5], dtype=torch.int32)

    def grouped(x, factors, ends):
        member = torch.arange(5, device=x.device).unsqueeze(-1) >= ends
        wanted = torch.bmm(x.unsqueeze(1), factors[member.sum(-1)]).squeeze(1)
        if x.device.type == "cpu":
            return wanted
        return torch.ops.aten._grouped_mm(x, factors, ends)

    # PyTorch traces the op in no other type.
    rows, factors = (numbers(*size, dtype=torch.bfloat16) for size in [(5, 64), (groups, 64, 8)])
    check_both(grouped, rows, factors, ends, units=8, scale=8)
