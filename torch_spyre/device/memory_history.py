"""The history of device memory: which call stacks allocated what, and snapshots of it.

Names, arguments and dicts are those of `torch.cuda.memory`, so that the tools of
`torch.cuda._memory_viz` and https://pytorch.org/memory_viz can read the snapshots.
"""

import pickle
import sys
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, Literal

from torch_spyre import _C
from torch_spyre.device.index import DeviceLike, device_index
from torch_spyre.errors import OutputError

_CONTEXTS = (None, "state", "alloc", "all")
# Recorded by `_snapshot` for each allocation and release: on the card every allocation is a segment
# of its own.
_SEGMENT_ACTIONS = {"alloc": "segment_alloc", "free_completed": "segment_free"}
_ACTIONS = ("alloc", "free_requested", "free_completed", "oom", "snapshot")
# Segments of at least this size are "large" in snapshots, as those of torch.cuda.
_LARGE_BYTES = 1 << 20
_SITES_IN_MESSAGES = 5

_skipped_segment_actions: frozenset[str] = frozenset()


def _record_memory_history(
    enabled: Literal["state", "all"] | bool | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "python",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    skip_actions: Sequence[str] | None = None,
) -> None:
    """Record what allocates and releases device memory, on all cards, until called with None.

    `enabled` is "state" for live allocations only, "all" for a history of at most `max_entries`
    events, or None, which drops what was recorded. `context` says which of them get call stacks:
    live allocations ("state"), those of the history too ("alloc"), or also releases ("all").
    `stacks` "all" adds the frames of C++, which are slow to resolve. `skip_actions` are events that
    are left out. `device` is ignored, as in `torch.cuda.memory`.
    """
    global _skipped_segment_actions
    if enabled is None or enabled is False:
        _C._stop_memory_history()
        return
    known = (*_ACTIONS, *_SEGMENT_ACTIONS.values())
    skipped = frozenset(skip_actions or ())
    _check("enabled", "all" if enabled is True else enabled, ("state", "all"))
    _check("context", context, _CONTEXTS)
    _check("stacks", stacks, ("python", "all"))
    for action in sorted(skipped):
        _check("skip_actions", action, known)
    if max_entries < 0:
        raise ValueError(f"max_entries must not be negative, got {max_entries}")
    _skipped_segment_actions = skipped & set(_SEGMENT_ACTIONS.values())
    _C._start_memory_history(
        has_events=enabled != "state",
        stacks=_CONTEXTS.index(context),
        has_cpp_frames=stacks == "all",
        max_events=max_entries,
        clears=clear_history,
        skipped=sorted(skipped & set(_ACTIONS)),
    )


def _check(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        choices = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={value!r} is not valid; allowed: {choices}")


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Return the live allocations and the recorded events of a card, or of all cards.

    The keys are those of `torch.cuda.memory._snapshot`: `segments`, one for each allocation, and
    `device_traces`, a list of events for each card. Events also have `device_time_ps`, the device
    time that the host had reached. Addresses are those of `Tensor.data_ptr`.
    """
    indices = _indices(device)
    for index in indices:
        _C._add_memory_snapshot(index)
    histories = {index: _C._memory_history(index) for index in indices}
    return {
        "segments": [
            segment for index in indices for segment in _segments(index, histories[index][1])
        ],
        "device_traces": [
            list(_with_segment_events(histories[index][0])) if index in histories else []
            for index in range(max(indices, default=-1) + 1)
        ],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str | PathLike[str] = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file, for `spyre memory` and https://pytorch.org/memory_viz."""
    snapshot = _snapshot()
    try:
        with open(filename, "wb") as file:
            pickle.dump(snapshot, file)
    except OSError as error:
        raise OutputError(filename, error) from error


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Return the frames that allocated the live memory at an address; None if not recorded."""
    for index in range(_C.device_count()):
        origin = _live(index).get(data_ptr)
        if origin is not None and origin["frames"]:
            frames: list[dict[str, Any]] = origin["frames"]
            return frames
    return None


def memory_snapshot(device: DeviceLike = None) -> list[dict[str, Any]]:
    """Return the allocations of a card, or of all cards, by address.

    Each is a segment as in `torch.cuda.memory_snapshot`, with one block. Besides the keys of
    `torch.cuda` it has `size`, as the block has, and `stack`: the call stack of the allocation as
    lines of text, innermost first, if `_record_memory_history` recorded it.
    """
    return [segment for index in _indices(device) for segment in _segments(index, _live(index))]


def _live(index: int) -> dict[int, dict[str, Any]]:
    """Return where the live allocations of a card were made, by address."""
    return _C._memory_history(index, has_events=False)[1]


def _indices(device: DeviceLike) -> list[int]:
    return list(range(_C.device_count())) if device is None else [device_index(device)]


def _segments(index: int, origins: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        _segment(index, block, origins.get(block["handle"], {}))
        for block in _C.memory_blocks(index)
        if block["state"] != "free"
    ]


def _segment(index: int, block: dict[str, Any], origin: dict[str, Any]) -> dict[str, Any]:
    size, frames = block["size"], origin.get("frames", [])
    is_allocated = block["state"] == "active_allocated"
    return {
        "device": index,
        "address": block["handle"],
        "total_size": size,
        "size": size,
        "allocated_size": size if is_allocated else 0,
        "active_size": size,
        "requested_size": block["requested_size"] if is_allocated else 0,
        "stream": origin.get("stream", 0),
        "segment_type": "large" if size >= _LARGE_BYTES else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": frames,
        "stack": [f"{frame['filename']}:{frame['line']} in {frame['name']}" for frame in frames],
        "blocks": [
            {
                "address": block["handle"],
                "size": size,
                "requested_size": block["requested_size"],
                "state": block["state"],
                "frames": frames,
            }
        ],
    }


def _with_segment_events(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a card with those of segments, around each allocation."""
    for event in events:
        action = _SEGMENT_ACTIONS.get(event["action"], "")
        has_segment_event = bool(action) and action not in _skipped_segment_actions
        if has_segment_event and action == "segment_alloc":
            yield {**event, "action": action}
        yield event
        if has_segment_event and action == "segment_free":
            yield {**event, "action": action}


def describe_memory(index: int) -> str:
    """Return what holds the memory of a card, for the message of an allocation that fails."""
    from torch_spyre.memory_snapshots.sites import sites
    from torch_spyre.memory_snapshots.snapshot import cards_of
    from torch_spyre.memory_snapshots.summary import site_lines

    cards = cards_of({"segments": memory_snapshot(index), "device_traces": []})
    if not cards:
        return ""
    entries = sites((block.size, block.stack) for block in cards[0].blocks)
    lines = "".join(f"\n  {line}" for line in site_lines(entries, _SITES_IN_MESSAGES))
    return f"\nMemory in use on spyre:{index}, by the line that allocated it:{lines}"
