"""Realizes tensors in memory, and reads and writes them there."""

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor import ir
from torch._inductor.lowering import clone, expand, to_dtype


def memory_loader(x: ir.TensorBox) -> Callable[[Sequence[Any]], Any]:
    """Return a loader that reads memory: that of the tensor, or of the tensor that it copies."""
    if not _is_copy(x):
        x.realize()
        data = x.data
        while isinstance(data, ir.MutableBox | ir.BaseView):
            data = data.data
        if isinstance(data, ir.ComputedBuffer) and data.num_reads() == 0:
            # Inductor would compute it again at every load.
            x = realized(clone(x))
    load: Callable[[Sequence[Any]], Any] = x.make_loader()
    return load


def _is_copy(x: ir.TensorBox) -> bool:
    """Return whether a tensor only copies elements, so that its source can be read instead."""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        data = data.data
    return isinstance(data, ir.Pointwise) and set(data.inner_fn_opcount().used_ops) == {"load"}


def realized(x: ir.TensorBox) -> ir.TensorBox:
    """Return a tensor whose loads read memory.

    After `realize`, Inductor would still compute a buffer that reads nothing, or a view of one,
    again at every load.
    """
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


def realized_copy(x: ir.TensorBox) -> ir.TensorBox:
    """Return a new tensor in memory with the same elements."""
    result: ir.TensorBox = clone(x)
    result.realize()
    return result


def store_into(source: ir.TensorBox, destination: ir.TensorBox) -> None:
    """Store a tensor, broadcast and converted, into the memory of a tensor or a view."""
    source = to_dtype(expand(source, destination.get_size()), destination.get_dtype())
    ir.MutationLayoutSHOULDREMOVE.realize_into(source, destination)
