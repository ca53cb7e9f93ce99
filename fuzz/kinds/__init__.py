"""The kinds of inputs, one module each, which is imported when it is used."""

import importlib
from collections.abc import Sequence

from fuzz.kind import Kind

_CLASSES = {
    "ktir": "KtirKind",
    "programs": "ProgramKind",
    "bundles": "BundleKind",
    "caches": "CacheKind",
    "arguments": "ArgumentKind",
    "ops": "OpKind",
}
NAMES = tuple(_CLASSES)


def kinds_named(names: Sequence[str] = NAMES) -> list[Kind]:
    """Return one object of each kind. Their modules import torch, and use no card."""
    return [
        getattr(importlib.import_module(f"fuzz.kinds.{name}"), _CLASSES[name])() for name in names
    ]
