"""Reads and checks a card description.

In the file every number stands with its unit and source (see `spyre.yaml`); here the two are taken
apart, so that code reads `card.memory.usable_bytes` and a report reads `card.sources`.
"""

from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from torch_spyre import knobs
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import CardDescriptionError

PRESETS = Path(__file__).parent
BYTE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SOURCE_WORDS = ("documented", "code", "fitted", "inferred", "assumed")


def _as_fraction(value: object) -> object:
    """Exact value of what the file says: `5.74` is 574/100, not the nearest binary number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a number") from None


Count = Annotated[int, Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]
Exact = Annotated[Fraction, BeforeValidator(_as_fraction)]
Rate = Annotated[Exact, Field(gt=0)]
Cost = Annotated[Exact, Field(ge=0)]
Share = Annotated[Exact, Field(gt=0, le=1)]


class Description(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @cached_property
    def kept_hash(self) -> int:
        return hash(tuple(self.__dict__[name] for name in type(self).model_fields))

    def __hash__(self) -> int:
        """Kept: a card is the key of every cache, and has a hundred fields."""
        return self.kept_hash


class Identity(Description):
    name: Text
    type: Text


class Compute(Description):
    cores: Count
    corelets: Count
    lx_bytes: Count
    stick_bytes: Count

    @model_validator(mode="after")
    def check(self) -> "Compute":
        _require(self.stick_bytes == BYTES_IN_STICK, f"stick_bytes must be {BYTES_IN_STICK}")
        _require(self.lx_bytes % self.stick_bytes == 0, "lx_bytes must be whole sticks")
        return self


class Memory(Description):
    physical_bytes: Count
    ecc_bytes: Annotated[int, Field(ge=0)]
    usable_bytes: Count
    alignment_bytes: Count
    segment_bytes: Count
    segment_count: Count
    program_segment: Annotated[int, Field(ge=0)]
    span_limit_bytes: Count

    @model_validator(mode="after")
    def check(self) -> "Memory":
        _require(
            self.usable_bytes <= self.physical_bytes - self.ecc_bytes,
            "usable_bytes is more than physical_bytes less ecc_bytes",
        )
        _require(
            self.alignment_bytes % BYTES_IN_STICK == 0,
            f"alignment_bytes must be a multiple of {BYTES_IN_STICK}",
        )
        _require(
            self.segment_bytes % self.alignment_bytes == 0,
            "segment_bytes must be a multiple of alignment_bytes",
        )
        _require(
            self.program_segment < self.segment_count, "program_segment must be below segment_count"
        )
        return self


class Ring(Description):
    directions: Count
    bytes_per_cycle: Count


class HostLink(Description):
    pcie_generation: Count
    lanes: Count
    gigabytes_per_second: Rate


class FittedRate(Description):
    """A memory rate in GB/s that upstream fitted over the shape of an op.

    With r = log2(rows), c = log2(columns) and s = log2(columns / 64), it is the sum of `base`, each
    coefficient times the term it is named after, kept between `floor` and `ceiling`.
    """

    base: Exact
    rows: Exact = Fraction(0)
    rows_squared: Exact = Fraction(0)
    columns: Exact = Fraction(0)
    sticks: Exact = Fraction(0)
    sticks_above_rows: Exact = Fraction(0)  # times max(0, s - r)
    rows_above_sticks: Exact = Fraction(0)  # times max(0, r - s)
    floor: Rate
    ceiling: Rate


class FewOuterRows(Description):
    """What a transpose of outer dimensions loses when the outermost is short."""

    below: Count
    loss_per_halving: Cost
    floor: Rate


class DecayingRate(Description):
    """`base + gain * exp(-rows / decay_rows)` GB/s."""

    base: Rate
    gain: Cost
    decay_rows: Count


class SplitShape(Description):
    """Cost of dividing a large product unevenly, per output element of a core above `free_area`."""

    free_area: Count
    long_free_splits: Count
    long_ns: Cost
    short_free_splits: Count
    short_ns: Cost


class Timing(Description):
    """Constants of the timing model; units and sources in the file."""

    OVERLAP: Literal["units", "serial", "overlapped", "overlapped_3way"]
    DDR_SHARING: Literal["pooled", "even"]
    LX_ACCESS: Literal["charged", "mixed_views"]
    WHOLE_CYCLES: bool
    N_CORES: Count
    CORELETS: Count
    CLOCK_GHZ: Rate
    PT_MAC_FP16: Count
    PT_MAC_FP8: Rate
    PT_MAC_INT8: Rate
    PT_MAC_INT4: Rate
    PT_MAC_FP32: Rate
    PT_SUSTAIN: Share
    PT_BMM_RATE: Share
    PT_3D2D_LO: Share
    PT_3D2D_HI: Share
    PT_BMM_BATCH: Count
    PT_BMM_CORES: Count
    PT_3D2D_BATCH: Count
    PT_FULL_ROWS: Count
    PT_FILL_EXP: Cost
    PT_SPLIT_SHAPE: SplitShape
    SFP_LANES_16: Count
    SFP_LANES_32: Count
    SFP_COST_SIMPLE: Count
    SFP_COST_DIVIDE: Count
    SFP_COST_TRANSCENDENTAL: Count
    SFP_REDUCE_PASSES: Count
    SFP_REDUCE_STICK: Annotated[int, Field(ge=0)]
    DDR_PEAK: Rate
    DDR_BW: Rate
    DDR_TURN: Cost
    DDR_RESTICK: Rate
    DDR_REDOUT: Rate
    DDR_ROW_REDUCTION: DecayingRate
    DDR_CAT_OUTER: FittedRate
    DDR_CAT_INNER: FittedRate
    DDR_TRANSPOSE_OUTER: FittedRate
    DDR_TRANSPOSE_FEW_OUTER: FewOuterRows
    DDR_BROADCAST_TALL_ROWS: Count
    DDR_BROADCAST_WIDE_COLUMNS: Count
    DDR_BROADCAST_UNKNOWN: Rate
    DDR_ROW_BROADCAST_TALL: FittedRate
    DDR_ROW_BROADCAST_SHORT: FittedRate
    DDR_ROW_BROADCAST_WIDE: FittedRate
    DDR_COLUMN_BROADCAST_TALL: FittedRate
    DDR_COLUMN_BROADCAST_SHORT: FittedRate
    DDR_COLUMN_BROADCAST_WIDE: FittedRate
    DDR_WORD: Count
    DDR_BURST: Count
    DDR_REQ_NS: Cost
    DDR_CORES_G: Annotated[tuple[tuple[Count, Share], ...], Field(min_length=1)]
    LX_BYTES_CYCLE: Count
    RELAYOUT_A: Exact
    RELAYOUT_B: Cost
    RELAYOUT_K: Rate
    RELAYOUT_SPLITS: tuple[Count, Count]
    RING_BYTES_CYCLE: Count
    RING_HOP_CYCLES: Annotated[int, Field(ge=0)]
    TRANSPOSE_BYTES_CYCLE: Count
    STEP_NS: Cost
    LOOP_ITER_NS: Cost
    LAUNCH_US: Cost
    PCIE_GBS: Rate
    PCIE_LAT_US: Cost

    @field_validator("DDR_CORES_G")
    @classmethod
    def check_order(cls, table: tuple[tuple[int, Any], ...]) -> tuple[tuple[int, Any], ...]:
        cores = [count for count, _ in table]
        _require(cores == sorted(set(cores)), "numbers of cores must rise")
        return table

    @model_validator(mode="after")
    def check(self) -> "Timing":
        _require(self.DDR_BW <= self.DDR_PEAK, "DDR_BW is more than DDR_PEAK")
        return self


class Source(Description):
    """Unit and origin of one entry; `entry` is its dotted name. Text has no unit."""

    entry: str
    unit: str | None
    source: str


class CardDescription(Description):
    path: Path
    sources: tuple[Source, ...]
    identity: Identity
    compute: Compute
    memory: Memory
    ring: Ring
    host_link: HostLink
    timing: Timing

    @model_validator(mode="after")
    def check(self) -> "CardDescription":
        compute, timing = self.compute, self.timing
        for names, one, other in (
            ("compute.cores and timing.N_CORES", compute.cores, timing.N_CORES),
            ("compute.corelets and timing.CORELETS", compute.corelets, timing.CORELETS),
            (
                "ring.bytes_per_cycle and timing.RING_BYTES_CYCLE",
                self.ring.bytes_per_cycle,
                timing.RING_BYTES_CYCLE,
            ),
        ):
            _require(one == other, f"{names} are the same number and must agree")
        return self


def load_card(name_or_path: str | Path | None = None) -> CardDescription:
    """The card of that preset or file; without one, the card SPYRE_CARD names.

    A file is read again only when it has changed (itself, not the one it extends).
    """
    path = _locate(str(knobs.device.card if name_or_path is None else name_or_path), Path.cwd())
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise CardDescriptionError(str(path), _reason(error)) from None
    return _load(path, modified)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _locate(name: str, folder: Path) -> Path:
    if "/" in name or name.endswith((".yaml", ".yml")):
        return (folder / name).resolve()
    presets = sorted(preset.stem for preset in PRESETS.glob("*.yaml"))
    if name not in presets:
        hint = f"no such preset; there are {', '.join(presets)}, and a file needs '/' or '.yaml'"
        raise CardDescriptionError(repr(name), hint)
    return PRESETS / f"{name}.yaml"


@lru_cache(maxsize=16)
def _load(path: Path, modified: int) -> CardDescription:
    values, sources = _separate(_read_entries(path), path)
    try:
        return CardDescription.model_validate({"path": path, "sources": sources, **values})
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"])))
            for item in error.errors(include_url=False)
        ]
        raise CardDescriptionError(str(path), "; ".join(problems)) from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win without a word; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        repeated = sorted({key for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if repeated:
            problem = f"{', '.join(repeated)} given more than once"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _read_entries(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, dict[str, Any]]:
    """Section -> entry -> leaf, with the file that this one extends filled in below it."""
    if path in extended_by:
        raise CardDescriptionError(str(path), "extends itself")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except OSError as error:
        raise CardDescriptionError(str(path), _reason(error)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        one_line = " ".join(str(error).split())
        raise CardDescriptionError(str(path), f"not YAML: {one_line}") from None
    base_name = content.pop("extends", None) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(s, dict) for s in content.values()):
        raise CardDescriptionError(str(path), "must be sections of entries, as in spyre.yaml")
    if base_name is None:
        return content
    entries = _read_entries(_locate(str(base_name), path.parent), (*extended_by, path))
    for section, leaves in content.items():
        entries[section] = {**entries.get(section, {}), **leaves}
    return entries


def _separate(
    entries: dict[str, dict[str, Any]], path: Path
) -> tuple[dict[str, dict[str, Any]], tuple[Source, ...]]:
    values: dict[str, dict[str, Any]] = {}
    sources = []
    for section, leaves in entries.items():
        values[section] = {}
        for key, leaf in leaves.items():
            entry = f"{section}.{key}"
            values[section][key], source = _separate_leaf(entry, leaf, path)
            sources.append(source)
    return values, tuple(sources)


def _separate_leaf(entry: str, leaf: object, path: Path) -> tuple[Any, Source]:
    if not isinstance(leaf, dict) or not {"value", "source"} <= leaf.keys() <= _LEAF_KEYS:
        raise CardDescriptionError(str(path), f"{entry}: must be {{value, unit, source}}")
    value, unit, source = leaf["value"], leaf.get("unit"), leaf["source"]
    if not isinstance(source, str) or not source.startswith(SOURCE_WORDS):
        hint = f"source must begin with one of {', '.join(SOURCE_WORDS)}"
        raise CardDescriptionError(str(path), f"{entry}: {hint}")
    is_identity = entry.startswith("identity.")
    if not isinstance(unit, str) and not (unit is None and is_identity):
        raise CardDescriptionError(str(path), f"{entry}: a number needs a unit")
    if unit in BYTE_UNITS and type(value) is int:
        value *= BYTE_UNITS[unit]
    return _freeze(value), Source(entry=entry, unit=unit, source=source)


_LEAF_KEYS = {"value", "unit", "source"}


def _freeze(value: Any) -> Any:  # noqa: ANN401 - what YAML gives can be anything
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
