"""The xDSL context with all dialects of KTIR."""

from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect

from torch_spyre.ktir.dialects.arith import Arith
from torch_spyre.ktir.dialects.ktdp import Ktdp
from torch_spyre.ktir.dialects.linalg import Linalg
from torch_spyre.ktir.dialects.spyreop import Spyreop
from torch_spyre.ktir.dialects.tensor import Tensor


def _affine() -> Dialect:
    from xdsl.dialects.affine import Affine

    return Affine


def _memref() -> Dialect:
    from xdsl.dialects.memref import MemRef

    return MemRef


@cache
def ktir_context() -> Context:
    """Return the context of the process. Rarely used dialects are loaded when a text names them."""
    context = Context()
    for dialect in (Builtin, Func, Scf, Arith, Math, Linalg, Tensor, Ktdp, Spyreop):
        context.load_dialect(dialect)
    context.register_dialect("affine", _affine)
    context.register_dialect("memref", _memref)
    return context
