"""Reads card descriptions, and returns the card in use.

In a file every value has its unit and source next to it (see `spyre.yaml`). They are separated
here: values become the fields of a `CardDescription`, units and sources its `sources`.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from torch_spyre import knobs
from torch_spyre.cards.description import CardDescription, Source
from torch_spyre.errors import CardDescriptionError, InvalidCoresError

PRESETS = Path(__file__).parent
BYTE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SOURCE_KINDS = ("documented", "code", "fitted", "inferred", "assumed")
# Entries that repeat another one. A file may omit them: they then have the value of that entry.
DERIVED = {
    "timing.N_CORES": "compute.cores",
    "timing.CORELETS": "compute.corelets",
    "timing.RING_BYTES_CYCLE": "ring.bytes_per_cycle",
    "timing.PCIE_GBS": "host_link.gigabytes_per_second",
    "timing.PCIE_LAT_US": "host_link.latency_us",
}

_LEAF_KEYS = {"value", "unit", "source"}

# Section -> entry -> {value, unit, source}. A malformed file may have anything in its place.
Entries = dict[str, dict[str, Any]]


def load_card(name_or_path: str | Path | None = None) -> CardDescription:
    """Return the card of a preset or file; without a name, the card in use (SPYRE_CARD).

    The card in use is read once: the emulated card is opened with it, and programs compiled for it
    must not run on a changed one. A named file is read again if it has changed (the file itself,
    not the one that it extends).
    """
    if name_or_path is None:
        return _card_in_use(knobs.device.card)
    path = _locate(str(name_or_path), Path.cwd())
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise CardDescriptionError(str(path), _reason(error)) from None
    return _load(path, modified)


@lru_cache(maxsize=16)
def _card_in_use(name: str) -> CardDescription:
    return load_card(name)


def usable_cores(card: CardDescription) -> int:
    """Return the number of cores that an op may be divided over: SENCORES, else all of the card.

    Raises `InvalidCoresError` if SENCORES asks for more cores than the card has.
    """
    cores = knobs.division.cores
    if cores is None:
        return card.compute.cores
    if cores > card.compute.cores:
        raise InvalidCoresError(cores, card.compute.cores)
    return cores


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
    entries = _read_entries(path)
    _fill_derived(entries)
    values, sources = _separate(entries, path)
    try:
        return CardDescription.model_validate({"path": path, "sources": sources, **values})
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"])))
            for item in error.errors(include_url=False)
        ]
        raise CardDescriptionError(str(path), "; ".join(problems)) from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """A YAML loader that rejects repeated keys; PyYAML silently takes the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        repeated = sorted({key for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if repeated:
            problem = f"{', '.join(repeated)} given more than once; keep one entry of each"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _read_entries(path: Path, extended_by: tuple[Path, ...] = ()) -> Entries:
    """Return the entries of a file; those that it lacks come from the file that it extends."""
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


def _fill_derived(entries: Entries) -> None:
    for derived, origin in DERIVED.items():
        section, key = derived.split(".")
        origin_section, origin_key = origin.split(".")
        leaf = entries.get(origin_section, {}).get(origin_key)
        if section in entries and isinstance(leaf, dict):
            entries[section].setdefault(key, {**leaf, "source": f"inferred: it is {origin}"})


def _separate(entries: Entries, path: Path) -> tuple[dict[str, dict[str, Any]], tuple[Source, ...]]:
    """Return the values, by section and key, and the units and sources."""
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
        raise CardDescriptionError(
            str(path), f"{entry}: must be {{value, unit, source}}, as in spyre.yaml"
        )
    value, unit, source = leaf["value"], leaf.get("unit"), leaf["source"]
    if not isinstance(source, str) or not source.startswith(SOURCE_KINDS):
        hint = f"source must begin with one of {', '.join(SOURCE_KINDS)}"
        raise CardDescriptionError(str(path), f"{entry}: {hint}")
    is_identity = entry.startswith("identity.")
    if not isinstance(unit, str) and not (unit is None and is_identity):
        raise CardDescriptionError(str(path), f"{entry}: a number needs a unit; add `unit: ...`")
    if unit in BYTE_UNITS and type(value) is int:
        value *= BYTE_UNITS[unit]
    return _freeze(value), Source(entry=entry, unit=unit, source=source)


def _freeze(value: Any) -> Any:  # noqa: ANN401 - YAML returns anything
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value
