"""Decompositions compute in the dtype of their arguments."""

from contextlib import ExitStack

from torch_spyre.dtypes import HALF_DTYPES
from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import update_table


def _apply(undo: ExitStack) -> None:
    from torch._prims_common import _computation_dtype_map

    update_table(undo, _computation_dtype_map, {dtype: dtype for dtype in HALF_DTYPES})


PATCH = Patch(
    name="computation_dtypes",
    targets=(PrivateName("torch._prims_common._computation_dtype_map"),),
    changes="PyTorch's decompositions compute 16-bit floats in 16 bits instead of float32.",
    reason="The table is consulted inside the decompositions; they have no option for it.",
    breaks="Compiled graphs convert to float32 and back: slower, and rounded differently.",
    apply=_apply,
    lifetime=Lifetime.COMPILATION,
)
