"""`spyre ktir profile`: show the counters inside a kernel of a KTIR file."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from torch_spyre.text_reports import write_text
from torch_spyre.tools.ktir_command import (
    File,
    FunctionName,
    Scalars,
    parse_scalars,
    read,
    select_function,
)


def profile(
    file: File,
    function: FunctionName = None,
    set: Scalars = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="A metric to show; repeatable. Default: most of them."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a flame graph as a page.")] = (
        None
    ),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show executions, device time and cycles of units inside a function, without running it."""
    from torch_spyre.backend.kernels import card_message, program_and_sizes
    from torch_spyre.errors import KtirError
    from torch_spyre.kernel_counters.counters import kernel_counters
    from torch_spyre.kernel_counters.metrics import DEFAULT_METRICS, check_metrics
    from torch_spyre.kernel_counters.report import KernelReport, as_dicts, text_report

    metrics = check_metrics(metric or DEFAULT_METRICS)
    scalars = parse_scalars(set)
    module = read(file)
    name = select_function(module, function)
    program, sizes = program_and_sizes(module, name, scalars)
    try:
        lines = module.source.text.splitlines() if module.source is not None else ()
        reports = [KernelReport(kernel_counters(program, sizes, ktir_lines=lines))]
    except (RuntimeError, ValueError, IndexError) as error:
        # As for an estimate: the card refuses a program that cannot run with any arguments.
        raise KtirError(f"{name}: {card_message(error)}") from error
    if json:
        print(json_format.dumps(as_dicts(reports), indent=2))
    else:
        print(text_report(reports, metrics), end="")
    if html is not None:
        from torch_spyre.kernel_counters.page import counters_page

        write_text(html, counters_page(reports, str(file)))
