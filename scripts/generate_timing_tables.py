"""Writes the generated sections of docs/timing.md: published points, constants, sensitivity.

`python scripts/generate_timing_tables.py` writes the page; with `--check` it only reports a stale
one. Programs are compiled by torch.compile and timed without computing, so the tables are exact.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import yaml
from decoder_block import prefill_and_decode
from generated_sections import ROOT, Sections, markdown_table, page, write_files
from torch._inductor.utils import fresh_cache

from torch_spyre import knobs
from torch_spyre._inductor.runtime import runner
from torch_spyre.backend.execution import program_record, timing_of
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.cards.loading import DERIVED, PRESETS
from torch_spyre.timing import ProgramRecord, Timing, estimate

PAGE = ROOT / "docs/timing.md"
CARD = load_card("spyre")


# --- Records --------------------------------------------------------------------------------------


@contextmanager
def _recording() -> Iterator[list[ProgramRecord]]:
    """Record every program that a compiled graph launches; nothing is computed."""
    records: list[ProgramRecord] = []

    def record_and_time(program: Program, sizes: Sequence[int], scalars: Sequence[int]) -> Timing:
        records.append(program_record(program, sizes, scalars))
        return timing_of(program, sizes, scalars)

    torch._dynamo.reset()
    with (
        fresh_cache(),
        mock.patch.object(runner, "timing_of", record_and_time),
        knobs.override(SPYRE_EMU_MODE="timing"),
        torch.no_grad(),
    ):
        yield records


def _compiled_records(function: Callable[..., Any], *arguments: Any) -> list[ProgramRecord]:
    with _recording() as records:
        torch.compile(function)(*arguments)
        torch.accelerator.synchronize()
    return records


# --- Published points -----------------------------------------------------------------------------

_MB = Fraction(2**20, 10**6)


@dataclass(frozen=True)
class Point:
    """An op whose time upstream publishes, as a figure or by the rate of its fit."""

    name: str
    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    published_us: float
    origin: str = "time"
    cores: int = 32


def _at(rate: float, mebibytes: int) -> float:
    """Return the time in us of moving bytes at a rate in GB/s."""
    return float(mebibytes * _MB / Fraction(rate)) * 1000


def _macs_at(rate: float, macs: int) -> float:
    """Return the time in us of multiply-accumulates on 32 cores at a rate per ns and core."""
    return macs / 32 / rate / 1000


_SQUARE = (4096, 4096)
POINTS = (
    Point("neg 4096×2048", torch.neg, ((4096, 2048),), 320.0),
    Point("add 4096²", torch.add, (_SQUARE, _SQUARE), 863.7),
    Point("softmax 4096×2048", lambda x: x.softmax(-1), ((4096, 2048),), 320.0),
    Point("softmax 512×1024, 1 core", lambda x: x.softmax(-1), ((512, 1024),), 181.8, cores=1),
    Point("mm 1024³", torch.mm, ((1024, 1024),) * 2, 54.0),
    Point("mm 2048³", torch.mm, ((2048, 2048),) * 2, 235.5),
    Point("mm 4096³", torch.mm, (_SQUARE,) * 2, 1883.8),
    Point("mm 32×4096×4096", torch.mm, ((32, 4096), _SQUARE), 228.7),
    Point("transpose 4096²", lambda x: x.t().contiguous(), (_SQUARE,), 578.5),
    Point("row sums 4096²", lambda x: x.sum(-1), (_SQUARE,), _at(134.16, 32), "rate"),
    Point("column sums 4096²", lambda x: x.sum(0), (_SQUARE,), _at(113, 32), "rate"),
    Point(
        "cat of 2048×4096 along rows",
        lambda x, y: torch.cat([x, y]),
        ((2048, 4096),) * 2,
        _at(144 - 9.6 * 6 - 2.4 * 12, 64),
        "rate",
    ),
    Point(
        "cat of 4096×2048 along columns",
        lambda x, y: torch.cat([x, y], 1),
        ((4096, 2048),) * 2,
        _at(110 - 0.8 * 6, 64),
        "rate",
    ),
    Point(
        "permute 8×1024×1024 to (1, 0, 2)",
        lambda x: x.permute(1, 0, 2).contiguous(),
        ((8, 1024, 1024),),
        _at(140 - 6.8 * 4 - 1.2 * 10, 32),
        "rate",
    ),
    Point(
        "add 4096² + 1×4096",
        torch.add,
        (_SQUARE, (1, 4096)),
        _at(183.5 - 2.8 * 12 - 2.6 * 12, 64),
        "rate",
    ),
    Point(
        "add 4096² + 4096×1",
        torch.add,
        (_SQUARE, (4096, 1)),
        _at(162 - 1.8 * 12 - 2.2 * 12, 64),
        "rate",
    ),
    Point(
        "add 4096² + 1×1",
        torch.add,
        (_SQUARE, (1, 1)),
        _at(162 - 1.8 * 12 - 2.2 * 12, 64),
        "rate",
    ),
    Point("bmm 8×1024³", torch.bmm, ((8, 1024, 1024),) * 2, _macs_at(160, 8 * 2**30), "rate"),
    Point(
        "4×512×1024 @ 1024²",
        torch.matmul,
        ((4, 512, 1024), (1024, 1024)),
        _macs_at(705, 4 * 2**29),
        "rate",
    ),
    Point(
        "8×512×1024 @ 1024²",
        torch.matmul,
        ((8, 512, 1024), (1024, 1024)),
        _macs_at(470, 8 * 2**29),
        "rate",
    ),
)


def _modelled_us(point: Point) -> float:
    arguments = [torch.empty(shape, dtype=torch.float16, device="spyre") for shape in point.shapes]
    with knobs.override(SENCORES=point.cores):
        records = _compiled_records(point.function, *arguments)
    return sum(estimate(record, CARD).time_ps for record in records) / 1e6


def points_table() -> str:
    """Return published and modelled times of the ops that upstream publishes."""

    def rows() -> Iterator[tuple[str, ...]]:
        for point in POINTS:
            modelled = _modelled_us(point)
            error = _percent(modelled, point.published_us)
            yield point.name, point.origin, f"{point.published_us:.1f}", f"{modelled:.1f}", error

    return markdown_table(("op", "published", "published µs", "modelled µs", "error"), rows())


# --- Constants ------------------------------------------------------------------------------------

# The timing constants, and the sections that some of them are derived from.
_CONSTANT_SECTIONS = ("timing", *dict.fromkeys(entry.split(".")[0] for entry in DERIVED.values()))


def constants_table() -> str:
    """Return value, unit and source of every constant, as the card's file states them."""
    content = yaml.safe_load((PRESETS / "spyre.yaml").read_text())
    rows = (
        (f"`{section}.{name}`", _plain(leaf["value"]), leaf.get("unit", ""), leaf["source"])
        for section in _CONSTANT_SECTIONS
        for name, leaf in content[section].items()
    )
    return markdown_table(("constant", "value", "unit", "source"), rows)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(
            ": ".join(map(_plain, item)) if isinstance(item, list) else _plain(item)
            for item in value
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- Sensitivity ----------------------------------------------------------------------------------

# For the rules that are assumed, the alternative of the preset ktir-cpu.
_OTHER_RULES: dict[str, object] = {
    "OVERLAP": "serial",
    "DDR_SHARING": "even",
    "LX_ACCESS": "mixed_views",
    "WHOLE_CYCLES": False,
}
# On the timelines of the host and the link, not part of a program's time.
_OUTSIDE_PROGRAMS = ("LAUNCH_US", "PCIE_GBS", "PCIE_LAT_US")
# The field to scale of constants with several.
_SCALED_FIELDS = {
    "DDR_TILE_FILL": "rows",
    "DDR_COLUMN_BROADCAST_SHORT": "base",
    "DDR_COLUMN_BROADCAST_WIDE": "base",
}
_FACTORS = (Fraction(1, 2), Fraction(3, 2))


class _BlockTimes:
    """Modelled times of the two steps of a decoder block, for any constants."""

    def __init__(self) -> None:
        self._steps = [
            _compiled_records(block, *arguments) for block, arguments in prefill_and_decode()
        ]
        self.base = self._times(CARD)

    def changes(self, name: str, value: object) -> list[str]:
        """Return the change of the time of both steps if a constant has another value."""
        constants = CARD.timing.model_copy(update={name: value})
        times = self._times(CARD.model_copy(update={"timing": constants}))
        return [_percent(time, before) for time, before in zip(times, self.base, strict=True)]

    def _times(self, card: CardDescription) -> list[int]:
        return [sum(estimate(record, card).time_ps for record in step) for step in self._steps]


def sensitivity_table() -> str:
    """Return the change of modelled time if assumed constants and rules are others."""
    block = _BlockTimes()
    rows, unused = [], []
    for name in _assumed_constants():
        value = getattr(CARD.timing, name)
        changes = [block.changes(name, _scaled(name, value, factor)) for factor in _FACTORS]
        cells = [change for step in zip(*changes, strict=True) for change in step]
        if set(cells) == {"0"}:
            unused.append(f"`{_label(name)}`")
        else:
            rows.append((f"`{_label(name)}`", *cells))
    prefill, decode = (f"{time / 1e6:.1f} µs" for time in block.base)
    titles = (f"prefill ({prefill}) × 0.5", "× 1.5", f"decode ({decode}) × 0.5", "× 1.5")
    rules = (
        (f"`{name}`", _plain(other), *block.changes(name, other))
        for name, other in _OTHER_RULES.items()
    )
    return "\n\n".join(
        (
            markdown_table(("constant", *titles), rows),
            f"Less than 0.05 %: {', '.join(unused)}.",
            markdown_table(("rule", "instead", "prefill", "decode"), rules),
        )
    )


def _assumed_constants() -> list[str]:
    """Return the timing constants that are assumed, at least in part, except rules."""
    names = (
        source.entry.removeprefix("timing.")
        for source in CARD.sources
        if source.entry.startswith("timing.") and "assumed" in source.source
    )
    return [name for name in names if name not in (*_OTHER_RULES, *_OUTSIDE_PROGRAMS)]


def _label(name: str) -> str:
    return f"{name}.{_SCALED_FIELDS[name]}" if name in _SCALED_FIELDS else name


def _scaled(name: str, value: Any, factor: Fraction) -> object:
    if name == "DDR_CORES_G":
        # All cores together have the whole bandwidth.
        return tuple(
            (cores, share if share == 1 else min(Fraction(1), share * factor))
            for cores, share in value
        )
    if name in _SCALED_FIELDS:
        field = _SCALED_FIELDS[name]
        return value.model_copy(update={field: getattr(value, field) * factor})
    return value * factor


def _percent(value: float, reference: float) -> str:
    text = f"{value / reference - 1:+.1%}"
    return "0" if text in ("+0.0%", "-0.0%") else text


# --- Files ----------------------------------------------------------------------------------------

_SECTIONS: Sections = {
    "published points": points_table,
    "constants": constants_table,
    "sensitivity": sensitivity_table,
}


def generated_files() -> dict[Path, str]:
    """Return the content that the page must have."""
    return {PAGE: page(PAGE, _SECTIONS)}


if __name__ == "__main__":
    sys.exit(write_files(__doc__, generated_files))
