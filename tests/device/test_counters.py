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
    other = torch.empty_like(card)
    assert moved(lambda: torch.empty(3, device="spyre")) == {"allocations": 1}
    assert moved(lambda: torch.empty(3, device="spyre").shape) == {"allocations": 1, "frees": 1}
    assert moved(lambda: torch.empty(0, device="spyre")) == {}
    assert moved(lambda: host.to("spyre")) == {"allocations": 1, "h2d_bytes": 8192}
    assert moved(lambda: card.copy_(pinned, non_blocking=True)) == {"h2d_bytes": 8192}
    assert moved(card.cpu) == {"d2h_bytes": 8192}
    on_card = moved(lambda: other.copy_(card))
    assert on_card.pop("device_time_ps") > 0
    traffic = {"ddr_read_bytes": 8192, "ddr_write_bytes": 8192}
    assert on_card == {"launches": 1, "d2d_bytes": 8192, **traffic}
    assert moved(lambda: (card.t()[3:, ::2], host.sin(), spyre.synchronize())) == {}
    assert moved(card.sinh)["fallbacks"] == 1


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
