"""Self-contained HTML pages with tables and pictures, without a network or a library of scripts.

    from torch_spyre.html_pages import Bar, Part, bars, page, table

    html = page("Title", [table("ops", ["Op", "Time"], rows), bars([Bar("mm", [Part(3.0)])], "s")])

Every function returns HTML; the texts that it takes are escaped. Pictures are SVG elements whose
horizontal positions are shares of the width, so that a page can zoom without distorting texts.
"""

from torch_spyre.html_pages.bars import Bar, Part, bars
from torch_spyre.html_pages.boxes import Box, box_chart
from torch_spyre.html_pages.flame import Frame, flame
from torch_spyre.html_pages.page import page
from torch_spyre.html_pages.quantities import quantity
from torch_spyre.html_pages.svg import standalone
from torch_spyre.html_pages.table import Cell, filter_box, table
from torch_spyre.html_pages.timeline import Row, Span, timeline

__all__ = [
    "Bar",
    "Box",
    "Cell",
    "Frame",
    "Part",
    "Row",
    "Span",
    "bars",
    "box_chart",
    "filter_box",
    "flame",
    "page",
    "quantity",
    "standalone",
    "table",
    "timeline",
]
