"""Allocation sites: the line of a user's program that an allocation comes from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import torch_spyre
from torch_spyre.memory_snapshots.snapshot import Frame, Stack

UNKNOWN = "unknown: allocated before the history was recorded"
# Frames of PyTorch and of the interpreter, on any machine.
_LIBRARY = re.compile(
    r"(site|dist)-packages/(torch|torch_spyre|triton|accelerate|transformers)/"
    r"|^<(frozen|eval_with_key|__array_function__)"
)
# Wrappers of compiled graphs: Inductor names them by a hash, in any folder.
_GENERATED = re.compile(r"/torchinductor_|/([a-z2-7]{2})/c\1[a-z2-7]{40,}\.py$")
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
    if not is_python or file.startswith(_PACKAGE) or _GENERATED.search(file):
        return False
    return _LIBRARY.search(file) is None


def user_frame(stack: Stack) -> Frame | None:
    """Return the innermost frame of the user's code.

    Without one, as in backward(), return that of the compiled graph, or else the innermost.
    """
    users = (frame for frame in stack if _is_user_file(frame.file))
    generated = (frame for frame in stack if _GENERATED.search(frame.file))
    return next(chain(users, generated, stack), None)


def site_of(stack: Stack) -> str:
    """Return the location that an allocation is listed under."""
    frame = user_frame(stack)
    if frame is None:
        return UNKNOWN
    return f"compiled graph, {frame}" if _GENERATED.search(frame.file) else str(frame)


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
