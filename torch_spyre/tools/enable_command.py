"""`spyre enable`: report which ops of a model are native and estimate its device time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

from torch_spyre.errors import OutputError
from torch_spyre.text_reports import write_text

if TYPE_CHECKING:
    from torch_spyre.enablement.evaluation import Progress


class FailOn(StrEnum):
    fallback = "fallback"
    missing = "missing"


class Mode(StrEnum):
    eager = "eager"
    compiled = "compiled"


def enable(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_SCRIPT",
            help="A model type (granite) or class (LlamaForCausalLM) of transformers, a published "
            "model (granite-3.3-8b, llama-3.1-8b, qwen2.5-7b, mistral-small-24b), a config.json "
            "or a folder that has one, or a Python script that defines `model` and `inputs`.",
        ),
    ],
    json: Annotated[Path | None, typer.Option("--json", help="Write all findings as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write them as one page.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Prompts at a time.")] = 1,
    prompt: Annotated[int, typer.Option("--prompt", min=1, help="Tokens of a prompt.")] = 64,
    mode: Annotated[Mode, typer.Option("--mode", help="How the model is run.")] = Mode.compiled,
    attempts: Annotated[
        bool, typer.Option("--try/--no-try", help="Try each kind of module on the card.")
    ] = True,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            help="Exit with 1 if an op is missing or, with `fallback`, missing or a fallback.",
        ),
    ] = None,
) -> None:
    """Report which ops of a model are native, fall back or are missing, and estimate its time.

    No weights are needed, and the model may be larger than the host's memory.

    Exit codes: 0 for any findings; 1 for a model that cannot be read or built, and for findings
    that --fail-on names; 2 for wrong usage.
    """
    for path in (json, html):
        if path is not None and not path.resolve().parent.is_dir():
            raise OutputError(path, FileNotFoundError(2, "there is no such folder"))
    from torch_spyre.enablement.evaluation import evaluate
    from torch_spyre.enablement.html_report import html_page
    from torch_spyre.enablement.json_report import as_json
    from torch_spyre.enablement.model_lookup import find_model
    from torch_spyre.enablement.terminal_report import show

    source = find_model(model)
    with _progress() as progress:
        findings = evaluate(
            source,
            mode=mode.value,
            batch=batch,
            prompt=prompt,
            attempts=attempts,
            progress=progress,
        )
    show(findings, Console())
    if json is not None:
        write_text(json, as_json(findings))
    if html is not None:
        write_text(html, html_page(findings))
    failures = findings.failures(fail_on.value) if fail_on is not None else []
    if failures:
        print(f"error: --fail-on {fail_on}: {', '.join(failures)}", file=sys.stderr)
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator["Progress"]:
    """Show a progress bar on stderr if it is a terminal."""
    from torch_spyre.enablement.evaluation import Progress

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[current]}", style="dim"),
    )
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        class Shown(Progress):
            def begin(self, stage: str, total: int | None) -> None:
                for finished in bar.tasks:
                    bar.update(finished.id, total=finished.completed, current="")
                bar.add_task(stage, total=total, current="")

            def advance(self, item: str = "") -> None:
                bar.update(bar.task_ids[-1], advance=1, current=item)

        yield Shown()
