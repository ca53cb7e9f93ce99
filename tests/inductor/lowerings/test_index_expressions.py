"""Values computed from coordinates, in loops that views split."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_card, to_reference


def count(n, x):
    return torch.arange(n, device=x.device)


GRAPHS = {
    "columns of a transposed view": lambda x: x.transpose(1, 2).reshape(24, 128) * count(128, x),
    "rows of a view": lambda x: x.reshape(48, 64) * count(48, x)[:, None],
    "rows of a transposed view": lambda x: (
        x.transpose(1, 2).reshape(24, 128) * count(24, x)[:, None]
    ),
    "all": lambda x: x.reshape(-1) * count(x.numel(), x).to(x.dtype) * 0.001,
    "transposed": lambda x: count(384, x).view(48, 8).t().reshape(-1) * x.reshape(-1)[:384],
    "each several times": lambda x: count(12, x).repeat_interleave(4) * x.reshape(-1)[:48],
    "several times": lambda x: count(12, x).expand(4, 12).reshape(-1) * x.reshape(-1)[:48],
    "below zero": lambda x: ((count(12, x) - 5) // 3) * x.reshape(-1)[:12],
    "products": lambda x: (
        (count(12, x) - 5)[:, None] * count(4, x) * x.reshape(-1)[:48].view(12, 4)
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_index_expressions_match_the_cpu(name):
    card = to_card(make_tensor(6, 8, 4, 16))
    actual = torch.compile(GRAPHS[name], fullgraph=True)(card)
    assert_close(actual, GRAPHS[name](to_reference(card)), units=2)
