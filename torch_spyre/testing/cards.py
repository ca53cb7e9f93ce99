"""Card descriptions for tests: the default card with some values replaced."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from torch_spyre.cards import CardDescription, load_card


def write_card(path: Path, values: Mapping[str, int], *, extends: str = "spyre") -> Path:
    """Write a card file that states only these values, by dotted name, and return its path.

    For example `write_card(path, {"compute.cores": 16, "compute.lx_bytes": 2**20})`.
    """
    content: dict[str, object] = {"extends": extends}
    for name, value in values.items():
        section, key = name.split(".")
        leaf = {"value": value, "unit": "as in the extended card", "source": "assumed: for a test"}
        entries = content.setdefault(section, {})
        assert isinstance(entries, dict)
        entries[key] = leaf
    path.write_text(yaml.safe_dump(content))
    return path


def load_changed_card(path: Path, values: Mapping[str, int]) -> CardDescription:
    """Return the default card with these values replaced; its file is written to `path`."""
    return load_card(write_card(path, values))
