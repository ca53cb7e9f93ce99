"""A trace with counter tracks for viewers: PT activity and scratchpad use over time."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch_spyre.profiler.trace import Trace, Work, WorkKind
from torch_spyre.profiler.trace_file import arguments_of, number
from torch_spyre.profiler.utilisation import UtilisationSource, exceeds_peak
from torch_spyre.text_reports import write_text

COUNTERS = ("pt_active", "lx_bytes")
# What upstream's analyzer shows for a utilisation that is impossible.
_ABOVE_PEAK = 101.0


def processed_trace(
    trace: Trace, source: UtilisationSource, counters: Collection[str] = COUNTERS
) -> Mapping[str, Any]:
    """Return the content of a trace on the host's clock with counters and `pt_active` added.

    The counter `PT Active` is in percent, `LX bytes` is the peak on a core. Each has the value of a
    kernel from its begin, and 0 from its end.
    """
    added, percents = [], {}
    for work in trace.work:
        if work.kind is not WorkKind.KERNEL:
            continue
        percent = _percent(work, source)
        if percent is not None:
            percents[id(work.arguments)] = percent
            if "pt_active" in counters:
                added += _counter("PT Active", "Percent", work, percent, trace.origin)
        lx_bytes = number(work.arguments.get("lx_peak_bytes"))
        if lx_bytes is not None and "lx_bytes" in counters:
            added += _counter("LX bytes", "bytes", work, lx_bytes, trace.origin)
    events = [_with_activity(event, percents) for event in trace.events]
    return {**trace.header, "traceEvents": events + added}


def write_processed_trace(content: Mapping[str, Any], path: Path) -> None:
    write_text(path, json.dumps(content, separators=(",", ":")))


def _percent(work: Work, source: UtilisationSource) -> float | None:
    ideal_us = source.ideal_us(work)
    if ideal_us is None or not work.duration:
        return None
    if exceeds_peak(ideal_us, work.duration):
        return _ABOVE_PEAK
    return 100 * ideal_us / work.duration


def _counter(
    name: str, unit: str, work: Work, value: float, origin: float
) -> list[Mapping[str, Any]]:
    place = {"ph": "C", "name": name, "pid": work.card, "tid": work.stream}
    return [
        {**place, "ts": origin + work.begin, "args": {unit: value}},
        {**place, "ts": origin + work.end, "args": {unit: 0}},
    ]


def _with_activity(event: Mapping[str, Any], percents: Mapping[int, float]) -> Mapping[str, Any]:
    arguments = arguments_of(event)
    percent = percents.get(id(arguments))
    if percent is None:
        return event
    activity = {"pt_active": percent / 100}
    cores = number(arguments.get("cores"))
    if cores is not None:
        activity["core used"] = cores
    return {**event, "args": {**arguments, **activity}}
