"""Elements of pictures: SVG text with escaped attributes, colours of groups, and legends."""

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape

# The hues of groups, in the order of their appearance, for light and dark pages alike.
_COLORS = (
    "#4c8dd6", "#e58b3a", "#4fae6a", "#cf5c5c", "#9274c9",
    "#b08d57", "#d77fb8", "#8a9199", "#b9b23d", "#3fb5bf",
)  # fmt: skip
_LEGEND_ITEM = re.compile(r'<i class="(g\d)"></i>([^<]*)</span>')
_SVG_TAG = re.compile(r"<svg\b|</svg>")
_LEGEND_HEIGHT = 22
_LETTER_WIDTH = 7.0  # in pixels, at most, on average
STYLE = """
.picture { font: 12px system-ui, sans-serif; display: block }
.picture text { fill: currentColor } .picture .axis { opacity: .65 }
.picture line { stroke: currentColor; stroke-opacity: .18 }
.picture .box rect { stroke: Canvas; stroke-width: .5; fill: #8a9199 }
.picture .box text { fill: #000; pointer-events: none }
.picture .box:hover rect { stroke: currentColor; stroke-width: 2 }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: 12px; margin: .3rem 0 }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em }
""" + "".join(
    f".picture .g{index} rect {{ fill: {color} }} .legend .g{index} {{ background: {color} }}\n"
    for index, color in enumerate(_COLORS)
)


def element(tag: str, content: str = "", **attributes: str | float) -> str:
    """Return an element; `_` in the name of an attribute stands for `-`, `class_` for `class`."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    text = "".join(f' {names[name]}="{_text(value)}"' for name, value in attributes.items())
    return f"<{tag}{text}>{content}</{tag}>"


def _text(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.6g}"


def percent(share: float) -> str:
    """Return a share of the width as an attribute."""
    return f"{100 * share:.6g}%"


def label(text: str, **attributes: str | float) -> str:
    """Return a text element."""
    return element("text", escape(text), **attributes)


def tooltip(text: str) -> str:
    """Return what a browser shows where the pointer rests on the enclosing element."""
    return element("title", escape(text)) if text else ""


def group_classes(groups: Iterable[str]) -> dict[str, str]:
    """Return the CSS class of each named group, in the order of their first appearance."""
    names = [name for name in dict.fromkeys(groups) if name]
    return {name: f"g{index % len(_COLORS)}" for index, name in enumerate(names)}


def legend(classes: Mapping[str, str]) -> str:
    """Return the names and colours of groups; nothing if there are none."""
    if not classes:
        return ""
    items = (
        f'<span><i class="{style}"></i>{escape(name)}</span>' for name, style in classes.items()
    )
    return f'<div class="legend">{"".join(items)}</div>'


def picture(content: str, height: float, **attributes: str | float) -> str:
    """Return an SVG element that is as wide as the page allows."""
    classes = {"class_": "picture"} | attributes
    return element("svg", content, width="100%", height=height, role="img", **classes)


def standalone(html: str, width: int) -> str:
    """Return the first picture of an HTML text, with its legend, as an SVG file of this width."""
    begin = html.index("<svg")
    drawing = html[begin : _end_of_picture(html, begin)]
    height = float(drawing.split('height="', 1)[1].split('"', 1)[0])
    items = _LEGEND_ITEM.findall(html[:begin])
    top = _LEGEND_HEIGHT if items else 0
    legend_items, x = [], 2.0
    for style, name in items:
        swatch = element("rect", width="10", height="10", y="4", x=x)
        legend_items.append(f'<g class="box {style}">{swatch}</g>')
        legend_items.append(element("text", name, x=x + 14, y="13"))
        x += 30 + _LETTER_WIDTH * len(unescape(name))
    moved = drawing.replace("<svg", f'<svg y="{top}"', 1)
    light = ".picture { background: #fff; color: #222 } .picture .box rect { stroke: #fff }"
    return (
        element(
            "svg",
            f"<style>{STYLE}{light}</style>{''.join(legend_items)}{moved}",
            xmlns="http://www.w3.org/2000/svg",
            width=float(width),
            height=height + top,
            class_="picture",
        )
        + "\n"
    )


def _end_of_picture(html: str, begin: int) -> int:
    depth = 0
    for tag in _SVG_TAG.finditer(html, begin):
        depth += -1 if tag[0].startswith("</") else 1
        if depth == 0:
            return tag.end()
    raise ValueError("the picture has no end")
