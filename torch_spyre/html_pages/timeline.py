"""Timelines: rows of rectangles over a common time."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_spyre.html_pages.boxes import AXIS_HEIGHT, Box, Drawing, Placed, zoomable
from torch_spyre.html_pages.svg import group_classes, label

_ROW_HEIGHT = 22
_NAME_HEIGHT = 16


@dataclass(frozen=True)
class Span:
    """An interval of a row; its group determines its colour."""

    begin: float
    end: float
    label: str = ""
    tooltip: str = ""
    group: str = ""


@dataclass(frozen=True)
class Row:
    """A named row of intervals. Intervals that overlap are drawn below one another."""

    name: str
    spans: Sequence[Span]


def timeline(
    rows: Sequence[Row],
    unit: str = "s",
    *,
    x_range: tuple[float, float] | None = None,
    groups: Sequence[str] = (),
) -> str:
    """Return the rows over one axis, which ends with the last interval unless a range is given.

    `groups` fixes the order, and thus the colours, of groups; others follow as they appear.
    """
    spans = [span for row in rows for span in row.spans]
    if not spans:
        return "<p>There is nothing to show.</p>"
    if x_range is None:
        x_range = (min(span.begin for span in spans), max(span.end for span in spans))
    placed, names, y = [], [], float(AXIS_HEIGHT)
    for row in rows:
        names.append(label(row.name, x="2", y=y + _NAME_HEIGHT - 4, class_="name"))
        y += _NAME_HEIGHT
        lanes = _lanes(row.spans)
        for lane in lanes:
            for span in lane:
                box = Box(span.begin, span.end, 0, 0, span.label, span.tooltip, span.group)
                placed.append(Placed(box, y, _ROW_HEIGHT - 2))
            y += _ROW_HEIGHT
    used = {span.group for span in spans}
    order = [group for group in groups if group in used] + [span.group for span in spans]
    return zoomable(placed, x_range, unit, Drawing("", "".join(names), y), group_classes(order))


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the intervals in as few lists as needed for none to overlap another of its list."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        lane = next((lane for lane in lanes if lane[-1].end <= span.begin), None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane.append(span)
    return lanes
