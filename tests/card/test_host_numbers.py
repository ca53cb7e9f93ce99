"""A number in a tensor on the host takes part in ops on the card, without falling back."""

import pytest
import torch

CALLS = {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "eq": torch.eq,
    "where": lambda x, number: torch.where(x > 0, x, number),
    "clamp": lambda x, number: torch.clamp(x, min=number),
    "fill_": lambda x, number: x.clone().fill_(number),
    "mul_": lambda x, number: x.clone().mul_(number),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("name", CALLS)
def test_the_number_counts_as_on_the_cpu(name, dtype):
    x = torch.tensor([[1.0, -2.0, 3.5], [0.25, 2.0, -8.0]], dtype=torch.float16)
    number = torch.tensor(2, dtype=dtype)
    before = torch.spyre.counters()["fallbacks"]
    found = CALLS[name](x.to("spyre"), number)
    assert torch.spyre.counters()["fallbacks"] == before
    wanted = CALLS[name](x, number)
    assert found.dtype == wanted.dtype
    assert torch.equal(found.cpu(), wanted)


def test_another_number_is_another_result():
    x = torch.ones(3, device="spyre")
    assert [(x + torch.tensor(float(each))).tolist() for each in (1, 2)] == [[2] * 3, [3] * 3]
