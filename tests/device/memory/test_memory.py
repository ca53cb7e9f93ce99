"""Device memory: limits, running out of it, giving it back, and guarding it."""

import gc
import os
import random
import signal
import threading

import pytest
import torch
from memory_helpers import GIB, MIB, USABLE, empty, run_child

memory = torch.spyre.memory


pytestmark = [
    pytest.mark.usefixtures("nothing_pending"),
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
]


def resident():
    """Bytes of host memory this process has."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# --- Running out ----------------------------------------------------------------------------------


def test_allocating_all_memory_commits_no_host_memory():
    free = torch.spyre.mem_get_info()[0]
    before = resident()
    whole = empty(free, torch.int8)
    assert torch.spyre.mem_get_info()[0] == 0
    with pytest.raises(torch.OutOfMemoryError):
        empty(1)
    whole[:1000].fill_(7)
    whole[-1000:].fill_(9)
    assert whole[998:1000].tolist() == [7, 7] and whole[-1].item() == 9
    assert resident() - before < 64 * MIB


def test_out_of_memory_error_names_requested_free_and_total_bytes():
    held = empty(GIB)
    free = torch.spyre.mem_get_info()[0]
    ooms = memory.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError) as raised:
        empty(1 << 40)
    message = str(raised.value)
    assert "Tried to allocate 2048.00 GiB (2199023255552 bytes) on spyre:0" in message
    assert f"{free} bytes" in message and "of 112.00 GiB total" in message
    assert memory.memory_stats()["num_ooms"] == ooms + 1
    assert held.numel() == GIB


def test_card_stays_usable_after_running_out_of_memory():
    before = torch.spyre.mem_get_info()
    for grow in (
        lambda: empty(1 << 40),
        lambda: torch.zeros(1 << 40, device="spyre"),
        lambda: torch.UntypedStorage(1 << 41, device="spyre"),
        lambda: torch.ones(1, device="spyre").expand(1 << 40).contiguous(),
    ):
        with pytest.raises(torch.OutOfMemoryError, match="Spyre out of memory"):
            grow()
        assert torch.spyre.mem_get_info() == before
        assert torch.ones(70, device="spyre").cpu().sum() == 70


def test_out_of_memory_is_raised_even_if_queued_work_failed(run):
    shown = run(
        """
import torch
bad = torch.full((1 << 16,), 2**40).pin_memory()
bad.to("spyre", non_blocking=True)
try:
    torch.empty(1 << 41, dtype=torch.int8, device="spyre")
except torch.OutOfMemoryError as error:
    assert "Tried to allocate 2048.00 GiB" in str(error), error
else:
    raise AssertionError("no error")
try:
    torch.spyre.synchronize()
except RuntimeError as error:
    assert "do not fit the 32 bits" in str(error), error
    print("fine")
""",
        TORCH_SPYRE_INT64_OVERFLOW="error",
    )
    assert shown == ["fine"]


def test_growing_a_tensor_beyond_the_memory_leaves_it_as_it_was():
    tensor = torch.arange(10, dtype=torch.float16, device="spyre")
    for grow in (
        lambda: tensor.resize_(1 << 40),
        lambda: tensor.untyped_storage().resize_(1 << 41),
        lambda: tensor.set_(tensor.untyped_storage(), 0, (1 << 40,), (1,)),
    ):
        with pytest.raises(torch.OutOfMemoryError, match="Spyre out of memory"):
            grow()
        assert tensor.tolist() == list(range(10))


def test_growing_a_tensor_commits_only_its_elements():
    tensor = torch.ones(10, device="spyre")
    before = resident()
    tensor.resize_(GIB // 4)
    assert tensor[:10].tolist() == [1.0] * 10
    assert resident() - before < 256 * MIB


def test_memory_that_a_reference_cycle_holds_is_collected_before_giving_up():
    class Node:
        pass

    retries = memory.memory_stats()["num_alloc_retries"]
    gc.disable()
    try:
        node = Node()
        node.itself, node.tensor = node, empty(80 * GIB, torch.int8)
        del node
        fits_only_then = empty(81 * GIB, torch.int8)
    finally:
        gc.enable()
    assert fits_only_then.numel() == 81 * GIB
    assert memory.memory_stats()["num_alloc_retries"] == retries + 1


def test_a_fraction_limits_the_process_and_can_be_lifted():
    assert torch.spyre.get_per_process_memory_fraction() == 1
    torch.spyre.set_per_process_memory_fraction(0.25)
    try:
        assert torch.spyre.get_per_process_memory_fraction("spyre:0") == 0.25
        free, total = torch.spyre.mem_get_info()
        assert total == USABLE and free == USABLE // 4 - memory.memory_allocated()
        with pytest.raises(torch.OutOfMemoryError, match=r"limited to 28\.00 GiB"):
            empty(29 * GIB, torch.int8)
        assert empty(27 * GIB, torch.int8).numel() == 27 * GIB
    finally:
        torch.spyre.set_per_process_memory_fraction(1.0)
    assert empty(29 * GIB, torch.int8).numel() == 29 * GIB
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            torch.spyre.set_per_process_memory_fraction(bad)


# --- Giving back ----------------------------------------------------------------------------------


def test_freed_memory_is_cached_until_empty_cache():
    memory.empty_cache()
    assert memory.memory_reserved() == memory.memory_allocated()
    tensor = torch.ones(256 * MIB, dtype=torch.int8, device="spyre")
    torch.spyre.synchronize()
    full, reserved = resident(), memory.memory_reserved()
    del tensor
    assert memory.memory_reserved() == reserved and resident() > full - 64 * MIB
    memory.empty_cache()
    assert memory.memory_reserved() == memory.memory_allocated()
    assert resident() < full - 192 * MIB


def test_empty_cache_finds_the_memory_of_queued_work():
    memory.empty_cache()
    baseline = memory.memory_reserved()
    torch.ones(64 * MIB, dtype=torch.int8, device="spyre")  # freed while its fill is queued
    memory.empty_cache()
    assert memory.memory_reserved() == baseline


def test_empty_cache_finds_freed_memory_behind_a_newer_allocation():
    memory.empty_cache()
    first, second = (torch.ones(128 * MIB, dtype=torch.int8, device="spyre") for _ in range(2))
    torch.spyre.synchronize()
    del first
    memory.empty_cache()  # the range of the first is decommitted
    del second
    full = resident()
    untouched = empty(128 * MIB, torch.int8)  # reuses the range of the first
    memory.empty_cache()
    assert resident() < full - 96 * MIB
    assert untouched.numel() == 128 * MIB


def test_freed_memory_beyond_the_cache_limit_is_decommitted(run):
    shown = run(
        """
import os, torch
def reserved(): return torch.spyre.memory_reserved() >> 20
small = torch.ones(32 << 20, dtype=torch.int8, device="spyre")
large = torch.ones(96 << 20, dtype=torch.int8, device="spyre")
torch.spyre.synchronize()
del small
assert reserved() == 128
del large
assert reserved() == 64
print("fine")
""",
        SPYRE_EMU_CACHE_MB="64",
    )
    assert shown == ["fine"]


# --- Leaks ----------------------------------------------------------------------------------------


def test_bytes_return_to_the_baseline_after_many_mixed_operations():
    before = memory.memory_allocated()
    choose = random.Random(0)
    streams = [torch.spyre.Stream() for _ in range(3)]
    held = []
    for _ in range(300):
        size = (choose.randint(1, 9), choose.randint(1, 99))
        with choose.choice(streams):
            host = torch.rand(size).pin_memory()
            card = host.to("spyre", non_blocking=True)
            held += [card, card.t()[::2], (card * 2).sum(0), card.half(), card.clone().resize_(300)]
            host.copy_(card, non_blocking=True)
            with pytest.raises(RuntimeError):
                card.view(-1, 10_007)
            with pytest.raises(RuntimeError):
                torch.mm(card, torch.empty(1000, 3, device="spyre"))
        choose.shuffle(held)
        del held[20:]
    leaf = torch.ones(8, 8, device="spyre", requires_grad=True)
    (leaf @ leaf).relu().sum().backward()
    assert memory.memory_allocated() > before
    del held, card, leaf
    torch.spyre.synchronize()
    gc.collect()
    assert memory.memory_allocated() == before
    assert memory.memory_stats()["active_bytes.all.current"] == before


def test_bytes_return_to_the_baseline_after_threads_that_allocate_at_random():
    before = memory.memory_stats()

    def work(seed):
        choose, held = random.Random(seed), []
        for _ in range(300):
            held.append(empty(choose.randint(0, 100_000)))
            if len(held) > 20:
                held.pop(choose.randrange(len(held)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = memory.memory_stats()
    for key in ("allocated_bytes", "allocation", "active_bytes", "requested_bytes"):
        assert after[f"{key}.all.current"] == before[f"{key}.all.current"]
    assert after["largest_free_block"] == before["largest_free_block"]


# --- Guarding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("touch", ["string_at(address, 1)", "memset(address, 0, 1)"])
def test_host_access_to_device_memory_reports_an_error(touch):
    done = run_child(
        f"""
import ctypes, torch
tensor = torch.ones(64, dtype=torch.float16, device="spyre")
address = tensor.data_ptr()
print("before", flush=True)
ctypes.{touch}
print("after")
"""
    )
    assert done.stdout.split() == ["before"] and done.returncode == -signal.SIGSEGV
    assert "host code accessed a Spyre device address" in done.stderr and ".cpu()" in done.stderr


def test_a_fault_signal_of_another_process_ends_the_process():
    done = run_child(
        """
import os, signal, torch
torch.ones(64, dtype=torch.float16, device="spyre")
os.kill(os.getpid(), signal.SIGSEGV)
print("after")
"""
    )
    assert done.returncode == -signal.SIGSEGV and "after" not in done.stdout


def test_poison_shows_uninitialised_and_freed_memory(run):
    shown = run(
        """
import torch
from torch_spyre import _C
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
    assert torch.empty(100, dtype=dtype, device="spyre").cpu().isnan().all(), dtype
torch.ones(1 << 16, device="spyre")
reused = torch.empty(1 << 16, device="spyre")
assert reused.isnan().all()
padded = torch.zeros(3, dtype=torch.float16, device="spyre")
assert padded.tolist() == [0, 0, 0]
print("fine")
""",
        SPYRE_EMU_POISON="1",
    )
    assert shown == ["fine"]


def test_pinned_memory_is_counted_until_it_is_freed():
    before = memory.host_memory_stats()
    pinned = torch.empty(1000, dtype=torch.float32, pin_memory=True)
    during = memory.host_memory_stats()
    assert during["active_bytes.current"] - before["active_bytes.current"] == 4096
    assert during["num_host_alloc"] == before["num_host_alloc"] + 1
    del pinned
    assert memory.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
    memory.reset_peak_host_memory_stats()
    assert memory.host_memory_stats()["active_bytes.peak"] == before["active_bytes.current"]
