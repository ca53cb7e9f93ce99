"""Writes the pictures and the generated sections of docs/profiling.md from examples/profiling.py.

`python scripts/generate_pictures.py` writes them; with `--check` it only reports stale ones. Only
times on the card's clock are shown, which are modelled: every run has the same.
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from generated_sections import ROOT, page, write_files
from rich.console import Console

from torch_spyre.html_pages import standalone
from torch_spyre.profiler import html_report, terminal_report
from torch_spyre.profiler.comparison import compare
from torch_spyre.profiler.summary import Summary, summarize
from torch_spyre.profiler.trace import Clock, load_trace

PAGE = ROOT / "docs/profiling.md"
PICTURES = ROOT / "docs/pictures"
_EXAMPLE = ROOT / "examples/profiling.py"
_WIDTH = 900
_TEXT_COLUMNS = 124
_MAX_ROWS = 6


def contents() -> dict[Path, str]:
    """Return the text of every generated file, by path."""
    summaries = _summaries()
    eager, compiled = summaries["eager"], summaries["compiled"]
    cards = [
        replace(card, name=name) for name, summary in summaries.items() for card in summary.cards
    ]
    pictures = {
        "profile-breakdown": html_report.breakdown_picture(cards),
        "profile-timeline": html_report.timeline_picture(compiled),
        "profile-flame": html_report.flame_picture(eager),
    }
    sections = {
        "summary": lambda: _printed(lambda console: _show_summary(compiled, console)),
        "comparison": lambda: _printed(lambda console: _show_comparison(summaries, console)),
    }
    files = {PICTURES / f"{name}.svg": standalone(html, _WIDTH) for name, html in pictures.items()}
    return files | {PAGE: page(PAGE, sections)}


def _summaries() -> Mapping[str, Summary]:
    """Run the example, and return the summaries of its traces."""
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"TORCH_SPYRE_EAGER": "native"}
        subprocess.run([sys.executable, _EXAMPLE], cwd=folder, env=variables, check=True)
        return {
            name: summarize(load_trace(Path(folder) / f"{name}.json", Clock.CARD))
            for name in ("eager", "compiled")
        }


def _show_summary(summary: Summary, console: Console) -> None:
    for card in summary.cards:
        terminal_report.show_card(card, console)
    terminal_report.show_work(summary, console, _MAX_ROWS)
    folder = f"{_EXAMPLE.parent}{os.sep}"
    lines = [replace(row, name=row.name.removeprefix(folder)) for row in summary.lines]
    terminal_report.show_places(console, "Lines of kernels", lines, _MAX_ROWS)
    modules = summary.kernel_modules
    terminal_report.show_places(console, "Modules of kernels", modules, _MAX_ROWS)


def _show_comparison(summaries: Mapping[str, Summary], console: Console) -> None:
    comparison = compare(summaries["eager"], summaries["compiled"])
    terminal_report.show_compared(console, "Totals", comparison.totals, _MAX_ROWS)


def _printed(show: Callable[[Console], None]) -> str:
    """Return what is printed as a block of text."""
    text = io.StringIO()
    show(Console(file=text, width=_TEXT_COLUMNS, highlight=False, markup=False))
    lines = [line.rstrip() for line in text.getvalue().strip().splitlines()]
    return "\n".join(["```text", *lines, "```"])


if __name__ == "__main__":
    raise SystemExit(write_files(__doc__.splitlines()[0], contents))
