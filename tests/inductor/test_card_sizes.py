"""Results, grids, LX sizes and times on cards with other core counts and scratchpad sizes."""

from math import prod

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu, count_call, make_tensor, to_card

from torch_spyre import knobs
from torch_spyre.backend.program.program import Program
from torch_spyre.errors import InvalidCoresError
from torch_spyre.testing.cards import write_card

MIB = 2**20
CARDS = [(8, 1), (8, 2), (16, 1), (16, 2), (32, 1)]


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def reductions(x):
    return x.sum(0), x.amax(1), x.mean(1), x.sum()


HEADS = (1, 8, 96, 64)
INDICES = torch.tensor([5, 0, 299, 17, 17, 250], dtype=torch.int32)
# Function, arguments, and tolerance in ulps.
OPS = {
    "matmul": (torch.matmul, (make_tensor(300, 256), make_tensor(256, 448)), 16),
    "batched matmul": (torch.matmul, (make_tensor(6, 70, 64), make_tensor(6, 64, 130)), 16),
    "softmax": (lambda x: x.softmax(-1), (make_tensor(300, 1000),), 4),
    "attention": (attention, tuple(make_tensor(*HEADS) for _ in range(3)), 8),
    "layer norm": (lambda x: F.layer_norm(x, (512,)), (make_tensor(300, 512),), 8),
    "reductions": (reductions, (make_tensor(300, 512),), 16),
    "cat": (lambda x, y: torch.cat((x, y), 1), (make_tensor(96, 128), make_tensor(96, 200)), 0),
    "gather": (lambda x, i: x[i], (make_tensor(300, 200), INDICES), 0),
}
# One op of every kind on a small card, and the smallest card for all; other pairs are heavy.
QUICK = {"softmax": (16, 2), "matmul": (32, 1), "reductions": (16, 1)}


def marks(name, card):
    is_quick = card == (8, 1) or QUICK.get(name) == card
    return () if is_quick else pytest.mark.heavy


PAIRS = [pytest.param(name, card, marks=marks(name, card)) for name in OPS for card in CARDS]


@pytest.fixture
def use_card(tmp_path):
    """Return a context in which the compiler and the timing model use a card of this size.

    The emulated card itself stays the default one, which can run programs for smaller cards.
    """
    torch.spyre.init()

    def override(cores, lx_mib):
        values = {"compute.cores": cores, "compute.lx_bytes": lx_mib * MIB}
        path = write_card(tmp_path / f"card_{cores}_{lx_mib}.yaml", values)
        return knobs.override(SPYRE_CARD=str(path), SENCORES=None, TORCH_SPYRE_PROGRAM_CACHE="0")

    return override


@pytest.fixture
def programs(monkeypatch):
    """Contents of all programs that are compiled during the test."""
    contents = []
    original = Program.from_content

    def spy(content):
        contents.append(content)
        return original(content)

    monkeypatch.setattr(Program, "from_content", staticmethod(spy))
    return contents


@pytest.mark.parametrize(("name", "card"), PAIRS)
def test_results_are_right_and_programs_fit_the_card(name, card, use_card, programs, no_fallbacks):
    cores, lx_mib = card
    function, arguments, units = OPS[name]
    with use_card(cores, lx_mib):
        assert_close_to_cpu(function, *arguments, units=units, scale=4.0 if units > 8 else 0.25)
    assert programs
    assert max(prod(content.grid) for content in programs) <= cores
    assert all(content.scratchpad_bytes <= lx_mib * MIB for content in programs)


def test_work_uses_all_cores_of_the_card(use_card, programs):
    x = make_tensor(1024, 512).to("spyre")
    for cores in (8, 16, 32):
        programs.clear()
        with use_card(cores, 2):
            x * x  # noqa: B018  (compiled for its shapes)
        assert [prod(content.grid) for content in programs] == [cores]


def device_times(function, arguments, use_card):
    """Return the times of the function on cards of 32, 16 and 8 cores, eager and compiled."""
    times = []
    for cores in (32, 16, 8):
        with use_card(cores, 2), knobs.override(SPYRE_EMU_MODE="timing"):
            for call in (function, torch.compile(function)):
                call(*arguments)
                counts, _ = count_call(call, *arguments)
                times.append(counts["device_time_ps"])
    return times[0::2], times[1::2]


def test_a_large_matmul_takes_longer_with_fewer_cores(use_card, no_fallbacks):
    arguments = to_card((make_tensor(2048, 1024), make_tensor(1024, 2048)))
    for times in device_times(torch.matmul, arguments, use_card):
        assert times[0] < times[1] / 1.2 < times[2] / 1.2**2


def test_fewer_cores_use_less_bandwidth(use_card, no_fallbacks):
    """In the table of the card, 8 and 16 cores have the same fraction of the bandwidth."""
    arguments = to_card((make_tensor(512, 512), make_tensor(512, 512)))
    for times in device_times(lambda x, y: torch.exp(x) + y, arguments, use_card):
        assert times[0] < times[1] / 1.5 <= times[2] / 1.5


def test_plans_of_another_card_are_not_used(use_card, programs):
    """Neither of eager ops nor of compiled graphs; the same card needs no new compilation."""
    x = make_tensor(64, 128).to("spyre")
    compiled = torch.compile(lambda x: x.exp() * 3)
    grids = []
    for cores in (32, 8, 32):
        programs.clear()
        with use_card(cores, 2):
            for _ in range(2):
                compiled(x)
                torch.exp(x)
        grids.append([prod(content.grid) for content in programs])
    assert [len(of_card) for of_card in grids] == [2, 2, 2]
    assert max(grids[1]) <= 8 < max(grids[0])


def test_more_cores_than_the_card_has_are_an_error(use_card):
    x = make_tensor(64, 128).to("spyre")
    message = "invalid SENCORES value 32: allowed are integers from 1 to 8"
    with (
        use_card(8, 2),
        knobs.override(SENCORES=32),
        pytest.raises(InvalidCoresError, match=message),
    ):
        torch.cosh(x)
    with use_card(8, 2), knobs.override(SENCORES=8):
        torch.cosh(x)
