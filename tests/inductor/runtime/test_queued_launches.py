"""Programs that queue work faster than the card does it."""

import torch

memory = torch.spyre.memory
MIB = 2**20


def test_queued_launches_reuse_memory():
    rows = torch.ones(4096, 1024, dtype=torch.float16, device="spyre")  # 8 MiB
    rows + rows
    torch.spyre.synchronize()
    memory.reset_peak_memory_stats()
    already_allocated = memory.memory_allocated() - 8 * MIB
    for _ in range(100):
        rows + rows
    torch.spyre.synchronize()
    # What is freed and still in use, at most one too many, one result, and the operand.
    most = (64 + 8 + 8 + 8) * MIB + already_allocated
    assert memory.memory_stats()["active_bytes.all.peak"] <= most
