"""Tensors in memory: put there, read from there, written to."""

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor import ir
from torch._inductor.lowering import clone, expand, to_dtype


def read_from_memory(x: ir.TensorBox) -> Callable[[Sequence[Any]], Any]:
    """Loads elements of a tensor in memory, or of another one that this is a view of."""
    if not _only_moves(x):
        x.realize()
        data = x.data
        while isinstance(data, ir.MutableBox | ir.BaseView):
            data = data.data
        if isinstance(data, ir.ComputedBuffer) and data.num_reads() == 0:
            # It would be computed again where it is read.
            x = in_memory(clone(x))
    load: Callable[[Sequence[Any]], Any] = x.make_loader()
    return load


def _only_moves(x: ir.TensorBox) -> bool:
    """Is it another tensor, read in another way? Then a product reads that tensor."""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        data = data.data
    return isinstance(data, ir.Pointwise) and set(data.inner_fn_opcount().used_ops) == {"load"}


def in_memory(x: ir.TensorBox) -> ir.TensorBox:
    """Whoever loads a buffer that reads nothing, or a view of one, would compute it again."""
    x.realize()
    if isinstance(x.data, ir.BaseView) and not isinstance(x.data, ir.ReinterpretView):
        base = x.data.unwrap_view()
        stored = base.data if isinstance(base, ir.StorageBox) else base
        if not isinstance(stored, ir.ComputedBuffer) or stored.num_reads() > 0:
            return x
        x = clone(x)
        x.realize()
    if not isinstance(x.data, ir.StorageBox) or not isinstance(x.data.data, ir.ComputedBuffer):
        return x
    storage, layout = ir.as_storage_and_layout(x, freeze=True)
    return ir.TensorBox(ir.ReinterpretView(data=storage, layout=layout))


def copied(x: ir.TensorBox) -> ir.TensorBox:
    result: ir.TensorBox = clone(x)
    result.realize()
    return result


def write_into(source: ir.TensorBox, part: ir.TensorBox) -> None:
    source = to_dtype(expand(source, part.get_size()), part.get_dtype())
    ir.MutationLayoutSHOULDREMOVE.realize_into(source, part)
