"""Invalid arguments of vision ops raise the same errors on the card as on the CPU."""

import pytest
import torch
import torch.nn.functional as F

INVALID = {
    "channels": lambda ones: F.conv2d(ones(1, 3, 5, 5), ones(2, 4, 3, 3)),
    "kernel": lambda ones: F.conv2d(ones(1, 3, 2, 2), ones(2, 3, 3, 3)),
    "groups": lambda ones: F.conv2d(ones(1, 4, 5, 5), ones(4, 2, 3, 3), groups=3),
    "bias": lambda ones: F.conv2d(ones(1, 4, 5, 5), ones(4, 4, 3, 3), ones(3)),
    "output padding": lambda ones: F.conv_transpose2d(
        ones(1, 4, 2, 2), ones(4, 3, 3, 3), output_padding=1
    ),
    "padding of a pool": lambda ones: F.max_pool2d(ones(1, 4, 5, 5), 3, padding=2),
    "pool of too little": lambda ones: F.max_pool2d(ones(1, 4, 2, 2), 3),
    "rank of a pool": lambda ones: F.avg_pool2d(ones(1, 1, 4, 5, 6), 3),
    "padding of averages": lambda ones: F.avg_pool2d(ones(1, 4, 5, 5), 3, padding=2),
    "divisor": lambda ones: F.avg_pool2d(ones(1, 4, 5, 5), 3, divisor_override=0),
    "reflection beyond the end": lambda ones: F.pad(ones(1, 4, 5, 5), (5, 0), mode="reflect"),
    "size of nothing": lambda ones: F.interpolate(ones(1, 4, 5, 5), size=(0, 3)),
    "unfolding too little": lambda ones: F.unfold(ones(1, 4, 2, 2), 3),
    "folding the wrong number": lambda ones: F.fold(ones(1, 8, 5), (4, 4), 2),
    "adaptive rank": lambda ones: F.adaptive_avg_pool2d(ones(4, 5), 3),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_arguments_raise_the_errors_of_the_cpu(case):
    with pytest.raises(RuntimeError) as on_cpu:
        INVALID[case](torch.ones)
    with pytest.raises(RuntimeError) as on_card:
        INVALID[case](lambda *size: torch.ones(size, device="spyre"))
    assert str(on_card.value).splitlines()[0] == str(on_cpu.value).splitlines()[0]


@pytest.mark.parametrize("case", INVALID)
def test_invalid_arguments_raise_in_compiled_graphs(case):
    made = torch.compile(lambda: INVALID[case](lambda *size: torch.ones(size, device="spyre")))
    torch._dynamo.reset()
    with pytest.raises(RuntimeError):
        made()
