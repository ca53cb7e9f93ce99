"""`spyre memory`: show what allocated the device memory of a snapshot."""

from pathlib import Path
from typing import Annotated

import typer

from torch_spyre.text_reports import write_text


def memory(
    snapshot: Annotated[
        Path,
        typer.Argument(
            metavar="SNAPSHOT",
            help="A file of torch.spyre.memory._dump_snapshot() or of torch.cuda's.",
            show_default=False,
        ),
    ],
    html: Annotated[Path | None, typer.Option("--html", help="Write the timeline as a page.")] = (
        None
    ),
    sites: Annotated[int, typer.Option("--sites", min=1, help="Lines of a table.")] = 10,
) -> None:
    """Show what allocated the device memory of a snapshot, at its peak and at the end.

    torch.spyre.memory._record_memory_history() switches recording on.
    """
    from torch_spyre.memory_snapshots.snapshot import read_snapshot
    from torch_spyre.memory_snapshots.summary import summary

    cards = read_snapshot(snapshot)
    print(summary(cards, sites), end="")
    if html is None:
        return
    from torch_spyre.memory_snapshots.page import memory_page

    write_text(html, memory_page(cards, snapshot.name))
