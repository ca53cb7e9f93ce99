"""Checks aliasing among the arguments of a call, as PyTorch's kernels do."""

from collections.abc import Sequence

import torch

_ADVICE = "Please clone() the tensor before performing the operation."


# Ops that read other elements than they write: no argument may alias the target at all.
_REORDERING = {
    *(
        "_index_put_impl_",
        "cat",
        "stack",
        "gather",
        "index_add",
        "index_copy",
        "index_fill",
        "index_put",
    ),
    *("index_reduce", "index_select", "put", "scatter", "scatter_add", "scatter_reduce", "take"),
}


def check_aliasing(
    op: str, written: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
) -> None:
    """Raise RuntimeError for a written tensor that overlaps itself or part of another.

    `tensors` are all tensors among the arguments of the op, `written` ones included.
    """
    is_reordering = op.removesuffix("_") in _REORDERING or op in _REORDERING
    for target in written:
        if torch._debug_has_internal_overlap(target) == 1:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to "
                f"a single memory location. {_ADVICE}"
            )
        arguments = _without_first(tensors, target)
        if not is_reordering:
            arguments = [tensor for tensor in arguments if not _is_same_view(target, tensor)]
        if any(_overlaps(target, tensor) for tensor in arguments):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                f"tensor refer to a single memory location. {_ADVICE}"
            )


def _without_first(tensors: Sequence[torch.Tensor], target: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors except for the argument that is the target."""
    position = next(index for index, tensor in enumerate(tensors) if tensor is target)
    return [*tensors[:position], *tensors[position + 1 :]]


def partially_aliased(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the indices of tensors that may alias another, though not element by element."""
    return [
        index
        for index, left in enumerate(tensors)
        if any(_is_another_view(left, right) for right in tensors)
    ]


def _has_same_storage(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(left.untyped_storage()._cdata == right.untyped_storage()._cdata)


def _is_another_view(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether both are views of one storage, but not the same view."""
    return _has_same_storage(left, right) and _geometry(left) != _geometry(right)


def _geometry(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _is_same_view(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether both have the same elements of one storage in the same order."""
    same_range = left.storage_offset() == right.storage_offset() and left.shape == right.shape
    return same_range and left.stride() == right.stride() and _has_same_storage(left, right)


def _overlaps(target: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Return whether two tensors certainly alias.

    Tensors with gaps may alias or not, and count as not aliased.
    """
    if not _has_same_storage(target, tensor):
        return False
    if target.numel() == 0 or tensor.numel() == 0:
        return False
    if not (_is_dense(target) and _is_dense(tensor)):
        return False
    target_begin, tensor_begin = target.storage_offset(), tensor.storage_offset()
    target_end, tensor_end = target_begin + target.numel(), tensor_begin + tensor.numel()
    return target_begin < tensor_end and tensor_begin < target_end


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has every element of its memory range exactly once."""
    expected = 1
    dims = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for stride, size in dims:
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
