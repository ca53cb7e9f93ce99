"""Each counter of `torch.spyre.counters()` changes only with its cause."""

import gc
import threading

import pytest
import torch

spyre = torch.spyre


def moved(action):
    """Return the changes of the counters by `action`; hold its result until the end."""
    before = spyre.counters()
    held = action()
    after = spyre.counters()
    assert held is not None and all(after[name] >= before[name] for name in before)
    return {name: after[name] - before[name] for name in before if after[name] != before[name]}


def test_counters_have_the_published_names_and_are_integers():
    names = "launches fallbacks h2d_bytes d2h_bytes d2d_bytes device_time_ps ddr_read_bytes"
    names += " ddr_write_bytes allocations frees"
    assert sorted(spyre.counters()) == sorted(names.split())
    assert all(type(value) is int for value in spyre.counters().values())


@pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")
def test_each_counter_moves_with_its_own_cause_only():
    host = torch.ones(64, 64, dtype=torch.float16)
    card, pinned = host.to("spyre"), host.pin_memory()
    assert moved(lambda: torch.empty(3, device="spyre")) == {"allocations": 1}
    assert moved(lambda: torch.empty(3, device="spyre").shape) == {"allocations": 1, "frees": 1}
    assert moved(lambda: torch.empty(0, device="spyre")) == {}
    assert moved(lambda: host.to("spyre")) == {"allocations": 1, "h2d_bytes": 8192}
    assert moved(lambda: card.copy_(pinned, non_blocking=True)) == {"h2d_bytes": 8192}
    assert moved(card.cpu) == {"d2h_bytes": 8192}
    assert moved(lambda: (card.t()[3:, ::2], host.sin(), spyre.synchronize())) == {}
    fallback = {"fallbacks": 1, "d2h_bytes": 8192, "h2d_bytes": 8192, "allocations": 1}
    assert moved(card.sinh) == fallback


SIZE = 256 * 512
HALF, SINGLE = 2 * SIZE, 4 * SIZE
# Bytes that are copied, read and written.
WORK_ON_THE_CARD = {
    "clone": (lambda x: x.clone(), HALF, HALF, HALF),
    "copy_": (lambda x: torch.empty_like(x).copy_(x), HALF, HALF, HALF),
    "contiguous": (lambda x: x.t().contiguous(), HALF, HALF, HALF),
    "expanded": (lambda x: x[:1].expand(256, 512).contiguous(), HALF, 2 * 512, HALF),
    "bfloat16": (lambda x: x.bfloat16(), HALF, HALF, HALF),
    "float": (lambda x: x.float(), SINGLE, HALF, SINGLE),
    "fill_": (lambda x: x.fill_(1.5), 0, 0, HALF),
    "zeros": (lambda x: torch.zeros_like(x), 0, 0, HALF),
    "full": (lambda x: torch.full((256, 512), 2.0, dtype=x.dtype, device="spyre"), 0, 0, HALF),
}


@pytest.mark.parametrize("name", WORK_ON_THE_CARD)
def test_copies_fills_and_casts_on_the_card_are_launches_with_time_and_bytes(name):
    gc.collect()  # objects of earlier tests must not be freed during the measurement
    work, copied, read, written = WORK_ON_THE_CARD[name]
    tensor = torch.ones(256, 512, dtype=torch.float16).to("spyre")
    changes = moved(lambda: work(tensor))
    changes.pop("allocations", None)
    time_ps = changes.pop("device_time_ps")
    expected = {
        "launches": 1,
        "d2d_bytes": copied,
        "ddr_read_bytes": read,
        "ddr_write_bytes": written,
    }
    assert changes == {name: count for name, count in expected.items() if count}
    # At 204.8 GB/s, the peak of the memory.
    assert time_ps >= (read + written) / 204.8e9 * 1e12


def test_counters_do_not_lose_counts_between_threads():
    gc.collect()  # objects of earlier tests must not be freed during the measurement

    def allocate_from_many_threads():
        work = [lambda: [torch.empty(3, device="spyre") for _ in range(200)]] * 8
        threads = [threading.Thread(target=target) for target in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return threads

    assert moved(allocate_from_many_threads) == {"allocations": 1600, "frees": 1600}
