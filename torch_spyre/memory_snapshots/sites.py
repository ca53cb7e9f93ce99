"""Allocation sites: the line of a user's program that an allocation comes from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch_spyre
from torch_spyre.memory_snapshots.snapshot import Frame, Stack

UNKNOWN = "unknown: allocated before the history was recorded"
# Frames of PyTorch, of generated code and of the interpreter, on any machine.
_LIBRARY = re.compile(
    r"(site|dist)-packages/(torch|torch_spyre|triton|accelerate|transformers)/|/torchinductor_"
    r"|^<(frozen|eval_with_key|__array_function__)"
)
_PACKAGE = f"{Path(torch_spyre.__file__).parent}/"


@dataclass(frozen=True)
class Site:
    """Allocations from one line; `stack` is that of the largest."""

    location: str
    bytes: int
    count: int
    stack: Stack


@lru_cache(maxsize=4096)
def _is_user_file(file: str) -> bool:
    is_python = file.endswith(".py") or file.startswith("<") or "ipykernel" in file
    return is_python and not file.startswith(_PACKAGE) and _LIBRARY.search(file) is None


def user_frame(stack: Stack) -> Frame | None:
    """Return the innermost frame of the user's code, or of the stack if it has none."""
    for frame in stack:
        if _is_user_file(frame.file):
            return frame
    return stack[0] if stack else None


def site_of(stack: Stack) -> str:
    """Return the location that an allocation is listed under."""
    frame = user_frame(stack)
    return UNKNOWN if frame is None else str(frame)


def sites(allocations: Iterable[tuple[int, Stack]]) -> list[Site]:
    """Return the sites of allocations, which are sizes and stacks; most bytes first."""
    grouped: dict[str, list[tuple[int, Stack]]] = {}
    for size, stack in allocations:
        grouped.setdefault(site_of(stack), []).append((size, stack))
    result = [
        Site(
            location,
            sum(size for size, _ in group),
            len(group),
            max(group, key=lambda entry: entry[0])[1],
        )
        for location, group in grouped.items()
    ]
    return sorted(result, key=lambda site: (-site.bytes, site.location))
