"""Pictures of rectangles over an axis: the base of timelines and flame graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_spyre.html_pages.quantities import quantity
from torch_spyre.html_pages.svg import (
    element,
    group_classes,
    label,
    legend,
    percent,
    picture,
    tooltip,
)
from torch_spyre.html_pages.ticks import ticks

AXIS_HEIGHT = 22
_LABEL_HEIGHT = 10
_NUM_TICKS = 11
_SHORTEST_LABELED = 11  # pixels: a lower rectangle has no text


@dataclass(frozen=True)
class Box:
    """A rectangle, in the units of the axes; its group determines its colour."""

    left: float
    right: float
    bottom: float
    top: float
    label: str = ""
    tooltip: str = ""
    group: str = ""


def box_chart(
    boxes: Sequence[Box],
    *,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    x_unit: str = "",
    y_unit: str = "",
    height: int = 320,
    groups: Sequence[str] = (),
) -> str:
    """Return a picture of rectangles in a plane, such as allocations over time and address.

    The vertical axis points upwards. The picture can be zoomed horizontally. `groups` fixes the
    order, and thus the colours, of groups; others follow as they appear.
    """
    low, high = y_range
    scale = height / (high - low) if high > low else 0.0
    above = AXIS_HEIGHT + _LABEL_HEIGHT
    lines, labels = [], []
    for value in ticks(low, high, max(2, height // 40), is_binary=y_unit == "B"):
        y = above + (high - value) * scale
        lines.append(element("line", x1="0", x2="100%", y1=y, y2=y))
        labels.append(label(quantity(value, y_unit), x="2", y=y - 2, class_="name"))
    placed = [
        Placed(box, above + (high - box.top) * scale, (box.top - box.bottom) * scale)
        for box in boxes
    ]
    drawing = Drawing("".join(lines), "".join(labels), above + height)
    used = {box.group for box in boxes}
    order = [group for group in groups if group in used] + [box.group for box in boxes]
    return zoomable(placed, x_range, x_unit, drawing, group_classes(order))


@dataclass(frozen=True)
class Placed:
    """A box with its vertical place in pixels from above."""

    box: Box
    y: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """The elements behind and before the boxes of a picture, and its height in pixels."""

    background: str
    foreground: str
    height: float


def zoomable(
    placed: Sequence[Placed],
    x_range: tuple[float, float],
    unit: str,
    drawing: Drawing,
    classes: Mapping[str, str],
) -> str:
    """Return boxes over a horizontal axis, in a frame that the page's script can zoom."""
    begin, end = x_range
    span = end - begin if end > begin else 1.0
    axis = []
    for value in ticks(begin, end, _NUM_TICKS, is_binary=unit == "B"):
        x = percent((value - begin) / span)
        axis.append(element("line", x1=x, x2=x, y1="0", y2=drawing.height))
        axis.append(label(quantity(value, unit), x=x, dx="3", y="12", class_="axis"))
    content = element("g", "".join(axis), class_="ticks") + drawing.background
    content += "".join(_box(entry, begin, span, classes) for entry in placed) + drawing.foreground
    data = {"data_begin": f"{begin!r}", "data_end": f"{end!r}", "data_unit": unit}
    svg = picture(content, drawing.height, **data)
    return f'{legend(classes)}<div class="zoom" tabindex="0">{svg}</div>'


def _box(entry: Placed, begin: float, span: float, classes: Mapping[str, str]) -> str:
    box = entry.box
    content = tooltip(box.tooltip or box.label) + element("rect", width="100%", height="100%")
    if box.label and entry.height >= _SHORTEST_LABELED:
        content += label(box.label, x="3", y=f"{min(entry.height - 4, 14):.4g}")
    # A nested picture clips its text, and keeps it in place if the page is zoomed.
    return element(
        "svg",
        content,
        class_=f"box {classes.get(box.group, '')}".strip(),
        x=percent((box.left - begin) / span),
        width=percent(max(box.right - box.left, 0.0) / span),
        y=entry.y,
        height=max(entry.height, 1.0),
    )
