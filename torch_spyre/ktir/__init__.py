"""KTIR, the tile-level IR of Spyre kernels: the `ktdp` dialect on xDSL.

`load` reads a file or text and verifies it. xDSL is imported with this package, so nothing that
`import torch` loads may import it.
"""

from typing import TYPE_CHECKING, Any

from torch_spyre.errors import KtirError, KtirWarning, SetError
from torch_spyre.ktir.module import Argument, Function, Module, load
from torch_spyre.source_location import SourceLocation

if TYPE_CHECKING:
    from torch_spyre.ktir.custom_ops import custom_op

__all__ = [
    "Argument",
    "Function",
    "KtirError",
    "KtirWarning",
    "Module",
    "SetError",
    "SourceLocation",
    "custom_op",
    "load",
]


def __getattr__(name: str) -> Any:
    """Import `custom_op` on first use: parsing and verification need no torch."""
    if name != "custom_op":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torch_spyre.ktir.custom_ops import custom_op

    return custom_op
