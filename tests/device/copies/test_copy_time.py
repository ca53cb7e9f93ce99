"""Device time of copies, fills and casts on the card: by their sticks and runs."""

import pytest
import torch

ROWS, COLUMNS = 512, 1024
HALF = 2 * ROWS * COLUMNS


def plain_us(read, written):
    """Return the time at the sustained rate, with turnaround."""
    return (read + written) / 150e3 + 5.74e-6 * min(read, written)


CASES = {
    "clone": (torch.clone, plain_us(HALF, HALF)),
    "cast of the same width": (torch.Tensor.bfloat16, plain_us(HALF, HALF)),
    "fill": (lambda x: x.fill_(1), plain_us(0, HALF)),
    # Sticks are divided or turned: 116 GB/s.
    "cast to another width": (torch.Tensor.float, (HALF + 2 * HALF) / 116e3),
    "transpose": (lambda x: x.t().contiguous(), 2 * HALF / 116e3),
    # Every second row is a run of one stick: a request of 4.7 ns each.
    "every second row": (
        lambda x: x[::2].clone(),
        plain_us(HALF / 2, HALF / 2) + HALF / 2 / 128 * 4.7e-3 - HALF / 2 / 150e3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_work_on_the_card_takes_the_time_of_its_sticks_and_runs(name):
    work, expected = CASES[name]
    tensor = torch.ones(ROWS, COLUMNS, dtype=torch.float16).to("spyre")
    torch.spyre.synchronize()
    before = torch.spyre.counters()["device_time_ps"]
    work(tensor)
    torch.spyre.synchronize()
    time_us = (torch.spyre.counters()["device_time_ps"] - before) / 1e6
    assert time_us == pytest.approx(expected, rel=1e-5)
