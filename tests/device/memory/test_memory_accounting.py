"""Statistics of device memory."""

import pytest
import torch
from memory_helpers import GIB, MIB, USABLE, empty

memory = torch.spyre.memory


pytestmark = [
    pytest.mark.usefixtures("nothing_pending"),
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
]


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    ("size", "dtype", "stored"),
    [
        ((2,), torch.float16, 128),
        ((65,), torch.float16, 256),
        ((64, 64), torch.float16, 8192),
        ((5, 100, 150), torch.float16, 192_000),
        ((1024,), torch.float32, 4096),
        ((64,), torch.int64, 512),
        ((64, 64), torch.bool, 8192),
        ((), torch.float16, 128),
        ((3, 0), torch.float16, 0),
    ],
)
def test_tensor_allocates_the_published_number_of_bytes(size, dtype, stored):
    before = memory.memory_stats()
    tensor = empty(size, dtype)
    after = memory.memory_stats()
    assert tensor.untyped_storage().nbytes() == stored
    assert after["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == stored
    count = "allocation.all.current"
    assert after[count] - before[count] == (1 if stored else 0)
    assert (tensor.data_ptr() == 0) == (stored == 0)
    del tensor
    assert memory.memory_allocated() == before["allocated_bytes.all.current"]
    assert memory.memory_stats()[count] == before[count]


def test_allocated_bytes_move_in_sticks_and_handles_are_distinct():
    before, held, handles = memory.memory_allocated(), [], set()
    for count in range(1, 400, 7):
        held.append(empty(count, torch.int8))
        handles.add(held[-1].data_ptr())
        assert (memory.memory_allocated() - before) % 128 == 0
    assert len(handles) == len(held) and 0 not in handles
    assert all(handle % 128 == 0 for handle in handles)


def test_requested_bytes_are_not_rounded_and_allocated_ones_are():
    before = memory.memory_stats()
    storage = torch.UntypedStorage(130, device="spyre")
    after = memory.memory_stats()
    for key, grown in (("requested_bytes", 130), ("allocated_bytes", 256), ("active_bytes", 256)):
        assert after[f"{key}.all.current"] - before[f"{key}.all.current"] == grown
    assert storage.nbytes() == 130


def test_the_peak_outlives_the_tensor_until_it_is_reset():
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    assert memory.max_memory_allocated() == before
    del (tensor := [empty(MIB)])[0]
    assert tensor == [] and memory.memory_allocated() == before
    assert memory.max_memory_allocated() == before + 2 * MIB
    assert memory.max_memory_reserved() >= memory.max_memory_allocated()
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == before


def test_accumulated_statistics_grow_until_reset():
    memory.reset_accumulated_memory_stats()
    for _ in range(3):
        empty(64)
    stats = memory.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 3 * 128
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 3
    memory.reset_accumulated_memory_stats("spyre:0")
    assert memory.memory_stats(0)["allocation.all.allocated"] == 0


def test_free_and_total_memory_follow_allocations():
    free, total = torch.spyre.mem_get_info()
    assert total == USABLE == torch.spyre.get_device_properties().total_memory
    tensor = empty(GIB // 2)
    assert torch.spyre.mem_get_info(tensor.device) == (free - GIB, total)
    assert torch.accelerator.get_memory_info() == (free - GIB, total)
    assert memory.get_memory_info(0) == (free - GIB, total)


def test_fragmentation_is_the_memory_outside_the_largest_free_range():
    whole = memory.memory_stats()["largest_free_block"]
    held = [empty(4 * GIB) for _ in range(13)]  # 8 GiB each
    assert memory.memory_stats()["fragmentation"] == pytest.approx(0, abs=0.01)
    del held[1::2]
    stats = memory.memory_stats()
    assert stats["largest_free_block"] == 8 * GIB and stats["free_blocks"] >= 7
    assert stats["fragmentation"] == pytest.approx(1 - 8 * GIB / stats["free_bytes"])
    with pytest.raises(torch.OutOfMemoryError, match=r"largest free block 8\.00 GiB"):
        empty(4 * GIB + 1)
    del held
    assert memory.memory_stats()["largest_free_block"] == whole


def test_summary_shows_allocated_and_free_memory():
    tensor = empty(512 * MIB)
    summary = torch.spyre.memory_summary(tensor.device)
    lines = summary.splitlines()
    assert {len(line) for line in lines} == {77} and {line[0] + line[-1] for line in lines} == {
        "||"
    }
    assert "PyTorch memory summary of spyre:0" in lines[1]
    (allocated,) = [line for line in lines if "Allocated memory" in line]
    assert allocated.split("|")[2].strip() == "1.0 GiB"
    assert "of 112.0 GiB" in summary and "Active allocations" in summary
    assert "Active allocations" not in memory.memory_summary(abbreviated=True)


def test_cards_are_accounted_separately(run):
    shown = run(
        """
import torch
memory = torch.spyre.memory
a = torch.ones(1024, 1024, dtype=torch.float16, device="spyre:0")
assert (memory.memory_allocated(0), memory.memory_allocated(1)) == (2 << 20, 0)
b = a.to("spyre:1")[:3].clone()
torch.spyre.set_device(1)
assert (memory.memory_allocated("spyre:0"), memory.memory_allocated()) == (2 << 20, 6144)
assert memory.max_memory_allocated(1) > 2 << 20 and memory.max_memory_allocated(0) == 2 << 20
memory.reset_peak_memory_stats(1)
assert memory.max_memory_allocated(1) == 6144 and memory.max_memory_allocated(0) == 2 << 20
torch.spyre.set_per_process_memory_fraction(0.0, 0)
try:
    torch.empty(1, device="spyre:0")
except torch.OutOfMemoryError as error:
    assert "on spyre:0" in str(error)
else:
    raise AssertionError
torch.empty(1 << 30, device="spyre:1")
assert [segment["device"] for segment in memory.memory_snapshot()] == [0, 1]
assert memory.memory_snapshot(1)[0]["allocated_size"] == 6144
del a, b
assert memory.memory_allocated(0) == memory.memory_allocated(1) == 0
print("fine")
""",
        AIU_WORLD_SIZE="2",
    )
    assert shown == ["fine"]
