"""`spyre trace`: where the time of a profile goes."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from torch_spyre.profiler.trace import Clock
from torch_spyre.text_reports import write_text

if TYPE_CHECKING:
    from torch_spyre.profiler.comparison import Comparison
    from torch_spyre.profiler.summary import Summary

# The width of tables that go to a file or to another program.
_WIDTH = 160


def trace(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Traces of torch.profiler, compressed or not."),
    ],
    compare: Annotated[
        Path | None, typer.Option("--compare", help="Compare the trace with this one.")
    ] = None,
    clock: Annotated[
        Clock | None,
        typer.Option("--clock", help="Whose times to use; default: the card's if it has them."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of each table.")] = 15,
    ideal_cycles: Annotated[
        Path | None,
        typer.Option(
            "--ideal-cycles",
            exists=True,
            file_okay=False,
            help="A folder of the compiler with <kernel>/perf/ideal_cycles.json.",
        ),
    ] = None,
    core_mhz: Annotated[
        float | None,
        typer.Option("--core-mhz", min=1.0, help="Clock of the cores, for ideal cycles."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one page with pictures to this file.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", help="Write tables as PREFIX_*.csv.", metavar="PREFIX"),
    ] = None,
) -> None:
    """Summarize traces: kernels, utilisation, idle time and overlap, time by op and by scope.

    Exit codes: 0 for any summary; 1 for a file that is no trace; 2 for wrong usage.
    """
    if (compare is not None or csv is not None) and len(files) > 1:
        raise typer.BadParameter("--compare and --csv need a single trace")
    from torch_spyre.profiler.comparison import compare as compare_summaries
    from torch_spyre.profiler.summary import summarize
    from torch_spyre.profiler.trace import load_trace
    from torch_spyre.profiler.utilisation import UtilisationSource, read_ideal_cycles

    kernels = {} if ideal_cycles is None else read_ideal_cycles(ideal_cycles)
    source = UtilisationSource(kernels, core_mhz)
    paths = files if compare is None else [*files, compare]
    summaries = [summarize(load_trace(path, clock), source) for path in paths]
    comparison = None if compare is None else compare_summaries(*summaries)
    _write_files(summaries, comparison, html, csv)
    if json:
        print(json_format.dumps(_json(summaries, comparison), indent=2))
    else:
        _show(summaries, comparison, top)


def _write_files(
    summaries: "list[Summary]",
    comparison: "Comparison | None",
    html: Path | None,
    csv: Path | None,
) -> None:
    if html is not None:
        from torch_spyre.profiler.html_report import html_page

        data = json_format.dumps(_json(summaries, comparison))
        write_text(html, html_page(summaries, comparison, data))
    if csv is not None:
        from torch_spyre.profiler.csv_tables import write_tables

        write_tables(summaries[0], csv)


def _json(summaries: "list[Summary]", comparison: "Comparison | None") -> dict[str, object]:
    from torch_spyre.profiler import comparison as comparison_module
    from torch_spyre.profiler import summary as summary_module

    values: dict[str, object] = {
        "traces": [summary_module.to_json(summary) for summary in summaries]
    }
    if comparison is not None:
        values["comparison"] = comparison_module.to_json(comparison)
    return values


def _show(summaries: "list[Summary]", comparison: "Comparison | None", top: int) -> None:
    from torch_spyre.profiler.terminal_report import show, show_comparison

    console = Console(highlight=False, markup=False)
    if not sys.stdout.isatty():
        console.width = _WIDTH
    if comparison is not None:
        show_comparison(comparison, console, top)
        return
    for summary in summaries:
        show(summary, console, top)
