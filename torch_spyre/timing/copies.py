"""Estimates the device time of copies and fills within device memory, which no program executes."""

from typing import Literal

from torch_spyre import _C
from torch_spyre.cards import load_card
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.timing.estimate import estimate
from torch_spyre.timing.launch_cost import launch_cost
from torch_spyre.timing.record import DdrPattern, DdrTransfer, LxTraffic, ProgramRecord, Step


def copy_record(
    read_bytes: int,
    read_runs: int,
    write_bytes: int,
    write_runs: int,
    is_restickify: bool,
    cores: int,
) -> ProgramRecord:
    """Return the record of a copy; a fill reads nothing.

    The bytes are whole sticks. All cores move an equal part, as the DMA engine of every core does.
    """
    transfers = []
    if read_bytes:
        transfers.append(_transfer("read", read_bytes, read_runs, cores))
    if write_bytes:
        transfers.append(_transfer("write", write_bytes, write_runs, cores))
    staged = read_bytes + write_bytes
    step = Step(
        name="copy" if read_bytes else "fill",
        op="copy" if read_bytes else "fill",
        cores=cores,
        ddr=tuple(transfers),
        ddr_pattern=DdrPattern(kind="restickify") if is_restickify and transfers else None,
        lx=(LxTraffic(bytes=staged, busiest_core_bytes=_per_core(staged, cores)),),
    )
    return ProgramRecord(name=step.name, steps=(step,))


def copy_cost(
    read_bytes: int, read_runs: int, write_bytes: int, write_runs: int, is_restickify: bool
) -> "_C.LaunchCost":
    """Return the cost of a copy or fill on the card in use."""
    card = load_card()
    record = copy_record(
        read_bytes, read_runs, write_bytes, write_runs, is_restickify, card.compute.cores
    )
    return launch_cost(estimate(record, card), ops=(record.name,), category="data movement")


def _transfer(
    direction: Literal["read", "write"], num_bytes: int, runs: int, cores: int
) -> DdrTransfer:
    return DdrTransfer(
        direction=direction,
        bytes=num_bytes,
        distinct_bytes=num_bytes,
        busiest_core_bytes=_per_core(num_bytes, cores),
        run_bytes=max(1, num_bytes // max(1, runs)),
    )


def _per_core(num_bytes: int, cores: int) -> int:
    sticks = num_bytes // BYTES_IN_STICK
    return -(-sticks // cores) * BYTES_IN_STICK
