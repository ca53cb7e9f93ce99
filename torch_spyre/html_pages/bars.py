"""Horizontal bars, each of one or several parts."""

from collections.abc import Sequence
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

_BAR_HEIGHT = 20
_NAME_HEIGHT = 17


@dataclass(frozen=True)
class Part:
    """A part of a bar; its group determines its colour."""

    value: float
    group: str = ""
    tooltip: str = ""


@dataclass(frozen=True)
class Bar:
    """A named bar: the sum of its parts, with a text behind its name."""

    name: str
    parts: Sequence[Part]
    text: str = ""

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


def bars(
    entries: Sequence[Bar],
    unit: str = "",
    *,
    longest: float | None = None,
    groups: Sequence[str] = (),
) -> str:
    """Return one bar below another; the longest, or a value given, takes the whole width."""
    longest = max((bar.total for bar in entries), default=0.0) if longest is None else longest
    if longest <= 0:
        return "<p>There is nothing to show.</p>"
    used = {part.group for bar in entries for part in bar.parts}
    order = [group for group in groups if group in used]
    classes = group_classes(order + [part.group for bar in entries for part in bar.parts])
    content, y = [], 0
    for bar in entries:
        text = bar.text or quantity(bar.total, unit)
        content.append(label(f"{bar.name}  {text}".strip(), x="0", y=y + _NAME_HEIGHT - 4))
        y += _NAME_HEIGHT
        begin = 0.0
        for part in bar.parts:
            text = part.tooltip or f"{part.group or bar.name}: {quantity(part.value, unit)}"
            rectangle = element("rect", width="100%", height="100%")
            content.append(
                element(
                    "svg",
                    tooltip(text) + rectangle,
                    class_=f"box {classes.get(part.group, 'g0')}",
                    x=percent(begin / longest),
                    width=percent(max(part.value, 0.0) / longest),
                    y=float(y),
                    height=float(_BAR_HEIGHT - 4),
                )
            )
            begin += part.value
        y += _BAR_HEIGHT
    return legend(classes) + picture("".join(content), y)
