"""Flame graphs: nested rectangles whose widths are the values of a tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_spyre.html_pages.boxes import AXIS_HEIGHT, Box, Drawing, Placed, zoomable
from torch_spyre.html_pages.quantities import quantity
from torch_spyre.html_pages.svg import group_classes

_LEVEL_HEIGHT = 20


@dataclass(frozen=True)
class Frame:
    """A node of a tree. Its own value is what remains after those of its children."""

    label: str
    value: float
    children: Sequence["Frame"] = ()
    tooltip: str = ""
    group: str = ""


def flame(root: Frame, unit: str = "s", *, narrowest: float = 1e-4) -> str:
    """Return the tree with its root at the top; frames below a share of the root are left out."""
    if root.value <= 0:
        return "<p>There is nothing to show.</p>"
    placed = list(_place(root, 0.0, 0, root.value, unit, narrowest))
    height = max(entry.y for entry in placed) + _LEVEL_HEIGHT
    classes = group_classes(entry.box.group for entry in placed)
    return zoomable(placed, (0.0, root.value), unit, Drawing("", "", height), classes)


def _place(
    frame: Frame, begin: float, depth: int, total: float, unit: str, narrowest: float
) -> Iterator[Placed]:
    share = f"{frame.label}: {quantity(frame.value, unit)}, {frame.value / total:.1%}"
    text = f"{share}\n{frame.tooltip}" if frame.tooltip else share
    box = Box(begin, begin + frame.value, 0, 0, frame.label, text, frame.group)
    yield Placed(box, AXIS_HEIGHT + depth * _LEVEL_HEIGHT, _LEVEL_HEIGHT - 1)
    for child in frame.children:
        if child.value >= narrowest * total:
            yield from _place(child, begin, depth + 1, total, unit, narrowest)
        begin += child.value
