"""`spyre opinfo`: PyTorch's op database on the card, compared with the CPU."""

import fnmatch
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from torch_spyre.errors import SpyreError
from torch_spyre.opinfo import results as opinfo_results
from torch_spyre.opinfo.results import DTYPES, MEANINGS, TROUBLE, Results, Unit, Verdict

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo

# mypy wants members of an enum as literals; these are what the tables have.
Dtype = StrEnum("Dtype", {name: name for name in DTYPES})  # type: ignore[misc]  # see above
Variant = StrEnum("Variant", {name: name for name in opinfo_results.VARIANTS})  # type: ignore[misc]  # too

SECONDS_BETWEEN_SAVES = 20.0
MOST_SHOWN = 40
QUICK_SAMPLES = 2
QUICK_DTYPES = ("float16", "float32")
QUICK_OP_NAMES = """
    abs add addmm amax bmm cat clamp div.no_rounding_mode exp gather index_select masked_fill
    matmul mean mul nn.functional.dropout nn.functional.gelu nn.functional.layer_norm
    nn.functional.linear nn.functional.silu permute softmax sum transpose where
"""
QUICK_OPS = QUICK_OP_NAMES.split()


class OpinfoError(SpyreError):
    """The op database cannot be used as asked."""


def opinfo(
    ops: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OP]...", help="Names or patterns, as nn.functional.*; else all."),
    ] = None,
    dtype: Annotated[
        list[Dtype] | None, typer.Option("--dtype", help="Only this one; repeatable.")
    ] = None,
    variant: Annotated[
        list[Variant] | None, typer.Option("--variant", help="Only this one; repeatable.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="At most so many for each; else all.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, help="Only the one of this number.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two samples of common ops, in two dtypes: seconds.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = 1,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds that a sample may take.")
    ] = 120.0,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write results to this file, as they come.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a table of them to this file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what the file of --json has; do the rest.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="With --resume: do again what was wrong or crashed.")
    ] = False,
) -> None:
    """Run samples of PyTorch's op database on the card, and compare them with the CPU."""
    if resume and json is None:
        raise typer.BadParameter("--resume needs the file of --json")
    if retry and not resume:
        raise typer.BadParameter("--retry goes with --resume")
    if quick and (ops or samples is not None or sample is not None or dtype):
        raise typer.BadParameter("--quick chooses ops, dtypes and samples itself")
    if samples is not None and sample is not None:
        raise typer.BadParameter("--samples and --sample exclude each other")
    variants = tuple(map(str, variant or opinfo_results.VARIANTS))
    if quick:
        units = _units(QUICK_OPS, QUICK_DTYPES, variants, QUICK_SAMPLES, None)
    else:
        units = _units(ops or ["*"], tuple(map(str, dtype or DTYPES)), variants, samples, sample)
    found = (
        opinfo_results.load(json) if resume and json is not None and json.exists() else Results()
    )
    units = [unit for unit in units if not _is_done(found, unit, retry)]
    complete = _run(units, found, jobs, timeout, json)
    if html is not None:
        from torch_spyre.opinfo.page import page

        opinfo_results.write(html, page(found))
    _print_summary(found)
    if not complete:
        print("interrupted" + ("; --resume goes on from here" if json is not None else ""))
    if found.trouble() or not complete:
        raise typer.Exit(1)


def _is_done(found: Results, unit: Unit, retry: bool) -> bool:
    before = found.units.get(unit.key)
    if before is None or before.unit != unit:
        return False
    return not (retry and before.verdict in TROUBLE)


def _database() -> "dict[str, OpInfo]":
    try:
        from torch_spyre.opinfo.worker import ops
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("torch"):
            raise
        raise OpinfoError(
            f"PyTorch's op database needs the package {error.name}: pip install {error.name}"
        ) from error
    return ops()


def _units(
    patterns: list[str],
    dtypes: tuple[str, ...],
    variants: tuple[str, ...],
    samples: int | None,
    sample: int | None,
) -> list[Unit]:
    import torch

    database = _database()
    chosen = []
    for pattern in patterns:
        names = [name for name in database if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise OpinfoError(f"no op of PyTorch's database is called {pattern!r}")
        chosen += names
    units = [
        Unit(name, dtype, variant, samples, sample)
        for name in dict.fromkeys(chosen)
        for dtype in dtypes
        for variant in variants
        if database[name].supports_dtype(getattr(torch, dtype), "cpu")
        and _has_variant(database[name], dtype, variant)
    ]
    if not units:
        raise OpinfoError("the ops chosen have none of these dtypes and variants")
    return units


def _has_variant(op: "OpInfo", dtype: str, variant: str) -> bool:
    if variant == "out":
        return bool(op.supports_out)
    if variant == "gradient":
        return dtype == "float32" and bool(op.supports_autograd)
    return True


def _run(units: list[Unit], found: Results, jobs: int, timeout: float, json: Path | None) -> bool:
    """False if the user interrupted it."""
    from torch_spyre.opinfo.pool import Pool

    if json is not None:
        opinfo_results.save(json, found)  # an hour later is a bad time to learn that it cannot be
    saved = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, _progress(len(units)) as progress:
        running = Pool(jobs, timeout, Path(folder)).run(units)
        try:
            for result in running:
                found.add(result)
                _advance(progress, str(result.unit))
                if json is not None and time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    opinfo_results.save(json, found)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            return False
        finally:
            running.close()
            if json is not None:
                opinfo_results.save(json, found)
    return True


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """Drawn by hand: its thread would not survive the forks of the pool."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
    progress.add_task("", total=total, now="")
    if not console.is_terminal:
        yield progress
        return
    with progress:
        yield progress


def _advance(progress: Progress, now: str) -> None:
    progress.update(progress.task_ids[0], advance=1, now=now)
    if progress.live.is_started:
        progress.refresh()


def _print_summary(found: Results) -> None:
    console = Console(highlight=False, markup=False)
    verdicts = found.verdicts()
    dtypes = [dtype for dtype in DTYPES if any(each == dtype for _, each in verdicts)]
    table = Table("Ops", *dtypes, "all", "samples", "", box=None)
    for column in table.columns[1:-1]:
        column.justify = "right"
    samples = found.samples()
    for verdict, meaning in MEANINGS.items():
        of_dtypes = [
            sum(each is verdict and key[1] == dtype for key, each in verdicts.items())
            for dtype in dtypes
        ]
        numbers = [*of_dtypes, sum(of_dtypes), samples[verdict]]
        if any(numbers):
            table.add_row(verdict, *map(str, numbers), meaning)
    console.print(table)
    shares = [
        opinfo_results.native_share(v for key, v in verdicts.items() if key[1] == dtype)
        for dtype in dtypes
    ]
    spelled = ", ".join(f"{dtype} {share:.1%}" for dtype, share in zip(dtypes, shares, strict=True))
    whole = opinfo_results.native_share(verdicts.values())
    of_samples = opinfo_results.native_share(Counter(samples).elements())
    console.print(f"\nnative: {whole:.1%} of ops ({spelled}), {of_samples:.1%} of samples")
    _print_trouble(console, found)


def _print_trouble(console: Console, found: Results) -> None:
    trouble = sorted(found.trouble(), key=lambda each: each[1].verdict is not Verdict.CRASH)
    for unit, finding in trouble[:MOST_SHOWN]:
        command = f"{unit.op} --dtype {unit.dtype} --variant {unit.variant}"
        console.print(
            f"\n{finding.verdict}: spyre opinfo {command} --sample {finding.index}\n"
            f"  {finding.detail}\n  {finding.sample}",
            soft_wrap=True,
        )
    if len(trouble) > MOST_SHOWN:
        console.print(f"\nand {len(trouble) - MOST_SHOWN} more: --json and --html have them all")
