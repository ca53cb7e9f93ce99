"""Decides for debugging which eager ops have kernels, when their calls are planned."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch_spyre.ops.plans import clear_all_plans
from torch_spyre.user_frames import current_line

_cpu_ops: set[str] = set()
_records: list[list[tuple[str, str]]] = []


@contextmanager
def ops_on_cpu(names: Iterable[str]) -> Iterator[None]:
    """Within the block, run these overloads on the CPU, as if the card had no kernel for them."""
    before = set(_cpu_ops)
    _cpu_ops.update(names)
    clear_all_plans()
    try:
        yield
    finally:
        _cpu_ops.clear()
        _cpu_ops.update(before)
        clear_all_plans()


@contextmanager
def recorded_ops(record: list[tuple[str, str]]) -> Iterator[None]:
    """Within the block, append each overload that has a kernel, with the line of its first call."""
    _records.append(record)
    try:
        yield
    finally:
        _records.remove(record)


def may_have_kernel(overload: str) -> bool:
    """Return whether the card may run an overload; record it."""
    if overload in _cpu_ops:
        return False
    for record in _records:
        if all(overload != known for known, _ in record):
            record.append((overload, str(current_line())))
    return True
