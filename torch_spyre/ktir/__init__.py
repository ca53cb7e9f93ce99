"""KTIR, the tile-level IR of Spyre kernels: the `ktdp` dialect on xDSL.

`load` reads a file or text and verifies it. xDSL is imported with this package, so nothing that
`import torch` loads may import it.
"""

from torch_spyre.errors import KtirError, KtirWarning, SetError
from torch_spyre.ktir.module import Argument, Function, Module, load
from torch_spyre.source_location import SourceLocation

__all__ = [
    "Argument",
    "Function",
    "KtirError",
    "KtirWarning",
    "Module",
    "SetError",
    "SourceLocation",
    "load",
]
