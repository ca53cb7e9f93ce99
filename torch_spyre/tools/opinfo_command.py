"""`spyre opinfo`: run PyTorch's op database on the card, and compare it with the CPU."""

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
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from torch_spyre.errors import MissingPackageError, OpinfoError
from torch_spyre.opinfo import results as opinfo_results
from torch_spyre.opinfo.not_native import not_native
from torch_spyre.opinfo.results import DTYPES, MEANINGS, TROUBLE, Results, Unit, Verdict

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo

# mypy requires the members of an enum as literals; these come from tables.
Dtype = StrEnum("Dtype", {name: name for name in DTYPES})  # type: ignore[misc]  # see above
Variant = StrEnum("Variant", {name: name for name in opinfo_results.VARIANTS})  # type: ignore[misc]  # too

SECONDS_BETWEEN_SAVES = 20.0
MAX_SHOWN = 40
QUICK_SAMPLES = 2
QUICK_DTYPES = ("float16", "float32")
QUICK_OP_NAMES = """
    abs add addmm amax bmm cat clamp div.no_rounding_mode exp gather index_select masked_fill
    matmul mean mul nn.functional.dropout nn.functional.gelu nn.functional.layer_norm
    nn.functional.linear nn.functional.silu permute softmax sum transpose where
"""
QUICK_OPS = QUICK_OP_NAMES.split()


def opinfo(
    ops: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OP]...", help="Names or patterns, e.g. nn.functional.*; default: all."
        ),
    ] = None,
    dtype: Annotated[
        list[Dtype] | None, typer.Option("--dtype", help="Only this one; repeatable.")
    ] = None,
    variant: Annotated[
        list[Variant] | None, typer.Option("--variant", help="Only this one; repeatable.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", min=1, help="At most this many per unit; default: all."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, help="Only the sample with this index.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Two samples of common ops in two dtypes."),
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = 1,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Time limit of a sample in seconds.")
    ] = 120.0,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write results to this file during the run.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write an HTML report to this file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip the units that the --json file already has.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="With --resume: repeat what was wrong or crashed.")
    ] = False,
) -> None:
    """Run samples of PyTorch's op database on the card, and compare them with the CPU."""
    if resume and json is None:
        raise typer.BadParameter("--resume needs --json")
    if retry and not resume:
        raise typer.BadParameter("--retry needs --resume")
    if quick and (ops or samples is not None or sample is not None or dtype):
        raise typer.BadParameter("--quick has its own ops, dtypes and samples")
    if samples is not None and sample is not None:
        raise typer.BadParameter("--samples and --sample are mutually exclusive")
    variants = tuple(map(str, variant or opinfo_results.VARIANTS))
    if quick:
        units = _units(QUICK_OPS, QUICK_DTYPES, variants, QUICK_SAMPLES, None)
    else:
        units = _units(ops or ["*"], tuple(map(str, dtype or DTYPES)), variants, samples, sample)
    results = (
        opinfo_results.load(json) if resume and json is not None and json.exists() else Results()
    )
    units = [unit for unit in units if not _is_done(results, unit, retry)]
    is_complete = _run(units, results, jobs, timeout, json)
    if html is not None:
        from torch_spyre.opinfo.html_report import html_report

        opinfo_results.write(html, html_report(results))
    _print_summary(results)
    if not is_complete:
        print("interrupted" + ("; continue with --resume" if json is not None else ""))
    if results.trouble() or not is_complete:
        raise typer.Exit(1)


def _is_done(results: Results, unit: Unit, retry: bool) -> bool:
    previous = results.units.get(unit.key)
    if previous is None or previous.unit != unit:
        return False
    return not (retry and previous.verdict in TROUBLE)


def _database() -> "dict[str, OpInfo]":
    try:
        from torch_spyre.opinfo.worker import ops
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("torch"):
            raise
        raise MissingPackageError(str(error.name), "PyTorch's op database") from error
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
    selected = []
    for pattern in patterns:
        names = [name for name in database if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise OpinfoError(pattern, "it matches no op of PyTorch's database")
        selected += names
    units = [
        Unit(name, dtype, variant, samples, sample)
        for name in dict.fromkeys(selected)
        for dtype in dtypes
        for variant in variants
        if database[name].supports_dtype(getattr(torch, dtype), "cpu")
        and _has_variant(database[name], dtype, variant)
    ]
    if not units:
        raise OpinfoError(
            " ".join(dict.fromkeys(selected)),
            "these ops have none of the selected dtypes and variants",
        )
    return units


def _has_variant(op: "OpInfo", dtype: str, variant: str) -> bool:
    if variant == "out":
        return bool(op.supports_out)
    if variant == "gradient":
        return dtype == "float32" and bool(op.supports_autograd)
    return True


def _run(units: list[Unit], results: Results, jobs: int, timeout: float, json: Path | None) -> bool:
    """Run the units; return False if the user interrupted the run."""
    from torch_spyre.opinfo.pool import Pool

    if json is not None:
        opinfo_results.save(json, results)  # fail before the run if the file cannot be written
    saved = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, _progress(len(units)) as progress:
        running = Pool(jobs, timeout, Path(folder)).run(units)
        try:
            for result in running:
                results.add(result)
                _advance(progress, str(result.unit))
                if json is not None and time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    opinfo_results.save(json, results)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            return False
        finally:
            running.close()
            if json is not None:
                opinfo_results.save(json, results)
    return True


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """Yield a progress bar without a refresh thread, which forks of the pool would break."""
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


def _print_summary(results: Results) -> None:
    console = Console(highlight=False, markup=False)
    verdicts = results.verdicts()
    tested_dtypes = {dtype for _, dtype in verdicts}
    dtypes = [dtype for dtype in DTYPES if dtype in tested_dtypes]
    table = Table("Ops", *dtypes, "all", "samples", "", box=None)
    for column in table.columns[1:-1]:
        column.justify = "right"
    samples = results.samples()
    for verdict, meaning in MEANINGS.items():
        counts = [
            sum(actual is verdict and key[1] == dtype for key, actual in verdicts.items())
            for dtype in dtypes
        ]
        cells = [*counts, sum(counts), samples[verdict]]
        if any(cells):
            table.add_row(verdict, *map(str, cells), meaning)
    console.print(table)
    fractions = [
        opinfo_results.native_fraction(v for key, v in verdicts.items() if key[1] == dtype)
        for dtype in dtypes
    ]
    per_dtype = ", ".join(
        f"{dtype} {fraction:.1%}" for dtype, fraction in zip(dtypes, fractions, strict=True)
    )
    of_ops = opinfo_results.native_fraction(verdicts.values())
    of_samples = opinfo_results.native_fraction(Counter(samples).elements())
    console.print(f"\nnative: {of_ops:.1%} of ops ({per_dtype}), {of_samples:.1%} of samples")
    _print_not_native(console, results)
    _print_trouble(console, results)


def _print_not_native(console: Console, results: Results) -> None:
    for reason, ops in not_native(results).items():
        console.print(f"\n{reason}:")
        console.print(Padding(Text(", ".join(ops)), (0, 0, 0, 2)))


def _print_trouble(console: Console, results: Results) -> None:
    trouble = sorted(results.trouble(), key=lambda entry: entry[1].verdict is not Verdict.CRASH)
    for unit, finding in trouble[:MAX_SHOWN]:
        command = f"{unit.op} --dtype {unit.dtype} --variant {unit.variant}"
        console.print(
            f"\n{finding.verdict}: spyre opinfo {command} --sample {finding.index}\n"
            f"  {finding.detail}\n  {finding.sample}",
            soft_wrap=True,
        )
    if len(trouble) > MAX_SHOWN:
        console.print(f"\nand {len(trouble) - MAX_SHOWN} more: see --json or --html")
