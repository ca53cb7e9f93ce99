"""Entry point of the command `spyre`.

Exit codes: 0 success; 1 invalid input, with `error: ...` on stderr, in one line unless the error
shows an excerpt of a text; 2 wrong usage. A traceback means a bug. A subcommand is a function with
typer annotations in its own file; it raises a `SpyreError` for invalid input, and imports slow
modules inside the function.
"""

import io
import sys
from typing import Annotated

import typer

from torch_spyre import __version__
from torch_spyre.errors import SpyreError
from torch_spyre.tools import (
    bisect_command,
    enable_command,
    info_command,
    instrument_command,
    knobs_command,
    ktir_command,
    ktir_profile_command,
    ktir_run_command,
    lx_command,
    memory_command,
    opinfo_command,
    smi_command,
    trace_command,
)
from torch_spyre.tools.messages import print_error

app = typer.Typer(
    name="spyre",
    help="Inspect and use IBM Spyre cards, including emulated ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"spyre {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Inspect and use IBM Spyre cards, including emulated ones."""


app.command("bisect", context_settings={"ignore_unknown_options": True})(bisect_command.bisect)
app.command("enable")(enable_command.enable)
app.command("info")(info_command.info)
app.command("instrument")(instrument_command.instrument)
app.command("knobs")(knobs_command.knobs)
app.command("lx")(lx_command.lx)
app.command("memory")(memory_command.memory)
app.command("opinfo")(opinfo_command.opinfo)
app.command("smi")(smi_command.smi)
app.command("trace")(trace_command.trace)
ktir_command.app.command("run")(ktir_run_command.run)
ktir_command.app.command("profile")(ktir_profile_command.profile)
app.add_typer(ktir_command.app, name="ktir")


def main() -> None:
    run(app)


def run(app: typer.Typer) -> None:
    """Run a command line; errors of the user end it with a message and exit code 1.

    Characters that a stream cannot encode, as on a terminal without UTF-8, are escaped.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except RuntimeError as error:
        user_error = _user_error(error)
        if user_error is None:
            raise
        message = str(user_error)
        text = message if user_error.is_multiline else " ".join(message.split())
        print_error(text)
        raise SystemExit(1) from None


def _user_error(error: BaseException | None) -> SpyreError | None:
    """Return the SpyreError that caused an error; PyTorch wraps those raised during autoload."""
    while error is not None and not isinstance(error, SpyreError):
        error = error.__cause__
    return error


if __name__ == "__main__":
    main()
