"""The skeleton of a page: title, style for light and dark, scripts, embedded data."""

from collections.abc import Sequence
from html import escape

from torch_spyre.html_pages.script import SCRIPT
from torch_spyre.html_pages.svg import STYLE as PICTURE_STYLE

# A browser that obeys this loads nothing from anywhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2a8; --warning: #c80; --bad: #d33 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line) }
td { vertical-align: top; overflow-wrap: anywhere }
td[data-sort] { text-align: right; white-space: nowrap }
.nowrap { white-space: nowrap }
thead th { cursor: pointer; white-space: nowrap; position: sticky; top: 0; background: Canvas }
th[aria-sort=ascending]::after { content: " ▴" } th[aria-sort=descending]::after { content: " ▾" }
code { font-size: 12px } input { font: inherit; padding: .3rem .6rem; width: 20rem }
.good { color: var(--good) } .warning { color: var(--warning) }
.bad { color: var(--bad); font-weight: 600 }
.note { border-left: .3rem solid var(--warning); padding: .3rem 1rem } .quiet { opacity: .75 }
.zoom { overflow-x: auto; border: 1px solid var(--line); margin: .2rem 0 1rem }
.zoom-buttons { text-align: right; margin-top: .5rem }
.zoom-buttons button { font: 12px system-ui, sans-serif; min-width: 2.2em; margin-left: .2rem }
"""


def page(
    title: str, parts: Sequence[str], *, subtitle: str = "", style: str = "", data: str = ""
) -> str:
    """Return a page of these parts, which are HTML.

    `style` is more CSS, and `data` a JSON text that is embedded as the element `data`.
    """
    body = "\n".join(parts)
    below = f"<p>{escape(subtitle)}</p>\n" if subtitle else ""
    embedded = _embedded(data) if data else ""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title><style>{_STYLE}{PICTURE_STYLE}{style}</style></head>
<body>
<h1>{escape(title)}</h1>
{below}{body}
{embedded}<script>{SCRIPT}</script>
</body>
</html>
"""


def _embedded(text: str) -> str:
    # An unescaped "</" would end the script element.
    safe = text.replace("</", "<\\/")
    return f'<script type="application/json" id="data">{safe}</script>\n'
