"""The tables of docs/porting-to-a-new-pytorch.md."""

from itertools import groupby

from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateUse
from torch_spyre.pytorch_internals.registry import PATCHES
from torch_spyre.pytorch_internals.uses import USES


def patches_table() -> str:
    """Return a Markdown table of all patches."""
    lines = [
        "| patch | target | what it changes | why no public way | what breaks if PyTorch changes |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_patch_row, PATCHES)]) + "\n"


def _patch_row(patch: Patch) -> str:
    targets = ", ".join(f"`{target.path}`" for target in patch.targets)
    occasion = "`import torch`"
    if patch.lifetime is Lifetime.COMPILATION:
        occasion = "during a compilation for the card"
    elif patch.after_import:
        occasion = f"when `{patch.after_import}` is imported"
    name = f"`{patch.name}` ({occasion})"
    return f"| {name} | {targets} | {patch.changes} | {patch.reason} | {patch.breaks} |"


def uses_table() -> str:
    """Return a Markdown table of the private names that are only used, by module and purpose."""
    lines = ["| module | names | used for |", "|---|---|---|"]
    for (module, purpose), uses in groupby(USES, key=lambda use: (_module_of(use), use.purpose)):
        names = ", ".join(f"`{use.name.path.removeprefix(module + '.')}`" for use in uses)
        lines.append(f"| `{module}` | {names} | {purpose} |")
    return "\n".join(lines) + "\n"


def _module_of(use: PrivateUse) -> str:
    """Return the path without the name itself and, for a member of a class, without the class."""
    parts = use.name.path.split(".")[:-1]
    while len(parts) > 1 and parts[-1][0].isupper():
        parts.pop()
    return ".".join(parts)
