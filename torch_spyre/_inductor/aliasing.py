"""Refuses calls that write memory which they also read in another way, as PyTorch's kernels do."""

from collections.abc import Sequence

import torch

_WAY_OUT = "Please clone() the tensor before performing the operation."


def check_aliasing(written: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for target in written:
        if torch._debug_has_internal_overlap(target) == 1:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to "
                f"a single memory location. {_WAY_OUT}"
            )
        if any(_partly_the_same(target, other) for other in tensors if other is not target):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                f"tensor refer to a single memory location. {_WAY_OUT}"
            )


def partially_aliased(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Places of tensors that may share memory with another, though not element by element."""
    return [
        place
        for place, one in enumerate(tensors)
        if any(_same_storage(one, other) and not _same_view(one, other) for other in tensors)
    ]


def _same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.storage_offset(), one.shape, one.stride(), one.dtype) == (
        other.storage_offset(),
        other.shape,
        other.stride(),
        other.dtype,
    )


def _partly_the_same(target: torch.Tensor, other: torch.Tensor) -> bool:
    """What is certain: tensors with gaps may or may not meet."""
    if not _same_storage(target, other):
        return False
    if target.numel() == 0 or other.numel() == 0:
        return False
    if not (_is_dense(target) and _is_dense(other)):
        return False
    begin, other_begin = target.storage_offset(), other.storage_offset()
    end, other_end = begin + target.numel(), other_begin + other.numel()
    if (begin, end) == (other_begin, other_end):
        return target.stride() != other.stride()
    return begin < other_end and other_begin < end


def _is_dense(tensor: torch.Tensor) -> bool:
    """Does it name every element of its part of memory, each once?"""
    expected = 1
    dims = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for stride, size in dims:
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
