"""`spyre smi`: the cards of this machine and the processes that use them."""

import json as json_format
import math
from itertools import chain, islice, repeat
from typing import Annotated

import typer
from rich.console import Console

ONE_LOOK_SECONDS = 0.2
WATCH_SECONDS = 1.0
MIN_SECONDS = 0.01
MAX_SECONDS = 86400.0


def check_seconds(seconds: float | None) -> float | None:
    """Reject a period that is no number."""
    if seconds is not None and math.isnan(seconds):
        raise typer.BadParameter("must be a number of seconds")
    return seconds


def smi(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a line of CSV for each card.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Redraw the screen until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            "-d",
            min=MIN_SECONDS,
            max=MAX_SECONDS,
            callback=check_seconds,
            help="Seconds between two samples: 0.2, or 1 with --watch.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="With --watch: end after so many looks."),
    ] = None,
) -> None:
    """Show memory, utilisation and processes of the cards, of all processes of this user.

    Utilisations are shares of the peak rates, in device time; busy is the share of the host's time
    in which the card is emulated.
    """
    if json + csv + watch > 1:
        raise typer.BadParameter("--json, --csv and --watch exclude each other")
    if count is not None and not watch:
        raise typer.BadParameter("--count needs --watch")
    if watch:
        _watch(interval or WATCH_SECONDS, count)
        return
    # Imported here: pydantic and the card description are slow.
    from torch_spyre.monitor.monitor import Monitor
    from torch_spyre.tools.smi_output import to_csv, to_json, to_tables

    look = Monitor().look_after(interval or ONE_LOOK_SECONDS)
    if json:
        print(json_format.dumps(to_json(look), indent=2))
    elif csv:
        print(to_csv(look), end="")
    else:
        Console().print(to_tables(look))


def _watch(seconds: float, count: int | None) -> None:
    """Redraw the tables until Ctrl-C; print them one after the other if there is no terminal."""
    from rich.live import Live

    from torch_spyre.monitor.monitor import Monitor
    from torch_spyre.tools.smi_output import to_tables

    console = Console()
    pauses = chain([ONE_LOOK_SECONDS], repeat(seconds))  # the first picture comes soon
    try:
        monitor = Monitor()
        pictures = (to_tables(monitor.look_after(pause)) for pause in islice(pauses, count))
        if not console.is_terminal:
            for picture in pictures:
                console.print(picture)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for picture in pictures:
                live.update(picture, refresh=True)
    except KeyboardInterrupt:
        return
