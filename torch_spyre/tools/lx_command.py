"""`spyre lx`: show what occupies the scratchpads while dumped kernels run."""

from pathlib import Path
from typing import Annotated

import typer

from torch_spyre.text_reports import write_text


def lx(
    dump: Annotated[
        Path,
        typer.Argument(
            metavar="DUMP",
            help="A folder that TORCH_SPYRE_DUMP has written: a kernel's, or that of all kernels.",
            show_default=False,
        ),
    ],
    html: Annotated[Path | None, typer.Option("--html", help="Write the pictures as a page.")] = (
        None
    ),
) -> None:
    """Show what occupies the scratchpads (LX) while dumped kernels run: peak, average, tensors."""
    from torch_spyre.dumped_programs import dumped_kernels
    from torch_spyre.scratchpad.report import stage_reports, text_report

    reports = stage_reports(dumped_kernels(dump))
    print(text_report(reports), end="")
    if html is None:
        return
    from torch_spyre.scratchpad.page import scratchpad_page

    write_text(html, scratchpad_page(reports, str(dump)))
