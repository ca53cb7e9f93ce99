"""`spyre instrument`: show the counters inside dumped kernels."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from torch_spyre.text_reports import write_text


def instrument(
    dump: Annotated[
        Path,
        typer.Argument(
            metavar="DUMP",
            help="A folder that TORCH_SPYRE_DUMP has written: a kernel's, or that of all kernels.",
            show_default=False,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="A metric to show; repeatable. Default: most of them."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write flame graphs as a page.")] = (
        None
    ),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show executions, device time and cycles of every unit inside dumped kernels.

    The counters are those of one launch of each program, by instruction and core.
    """
    from torch_spyre.dumped_programs import dumped_kernels
    from torch_spyre.kernel_counters.counters import kernel_counters
    from torch_spyre.kernel_counters.metrics import DEFAULT_METRICS, check_metrics
    from torch_spyre.kernel_counters.report import KernelReport, as_dicts, text_report

    metrics = check_metrics(metric or DEFAULT_METRICS)
    reports = [
        KernelReport(
            kernel_counters(
                stage.program, stage.array_bytes, ops=stage.ops, ktir_lines=kernel.ktir_lines
            )
        )
        for kernel in dumped_kernels(dump)
        for stage in kernel.programs
    ]
    if json:
        print(json_format.dumps(as_dicts(reports), indent=2))
    else:
        print(text_report(reports, metrics), end="")
    if html is not None:
        from torch_spyre.kernel_counters.page import counters_page

        write_text(html, counters_page(reports, str(dump)))
