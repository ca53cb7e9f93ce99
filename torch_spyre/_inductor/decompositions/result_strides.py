"""Results of decompositions get the strides of the op that is decomposed."""

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils import _pytree as pytree

from torch_spyre._inductor.argument_checks import META_FAILURES
from torch_spyre.constants import DEVICE_NAME

Function = Callable[..., Any]


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()


def with_result_strides(overload: torch._ops.OpOverload, function: Function) -> Function:
    """Wrap a decomposition so that its results have the strides of the op's fake results.

    Within another decomposition strides do not matter: the outermost one restores them.
    """
    schema = overload._schema
    if schema.is_mutable or any(result.alias_info for result in schema.returns):
        return function

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        _nesting.depth += 1
        try:
            results = function(*args, **kwargs)
        finally:
            _nesting.depth -= 1
        if _nesting.depth or results is NotImplemented:
            return results
        leaves = pytree.tree_leaves(results)
        if not any(map(_is_fake_on_card, leaves)):
            return results
        expected = _fake_results(overload, args, kwargs)
        if len(expected) != len(leaves):
            return results
        return pytree.tree_unflatten(
            [_restrided(*pair) for pair in zip(leaves, expected, strict=True)],
            pytree.tree_structure(results),
        )

    return decomposition


def to_strides(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Return a dense tensor with its dims in the order of `strides`: `x` itself if it has them."""
    dims = zip(x.shape, x.stride(), strides, strict=True)
    if x.numel() == 0 or all(size == 1 or stride == new for size, stride, new in dims):
        return x
    # Dims of size 1 come last; their strides do not matter.
    order = sorted(range(x.dim()), key=lambda dim: (x.shape[dim] == 1, -strides[dim]))
    inverse = [order.index(dim) for dim in range(x.dim())]
    return x.permute(order).clone(memory_format=torch.contiguous_format).permute(inverse)


def _is_fake_on_card(value: object) -> bool:
    return isinstance(value, FakeTensor) and value.device.type == DEVICE_NAME


def _fake_results(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """Return the op's results for fake tensors; an empty list if it has no fake kernel."""
    with disable_proxy_modes_tracing(), suppress(*META_FAILURES):
        return pytree.tree_leaves(overload(*args, **kwargs))
    return []


def _restrided(result: Any, expected: Any) -> Any:
    if not isinstance(result, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return result
    is_dense = torch._prims_common.is_non_overlapping_and_dense_or_false(expected)
    if not is_dense or result.shape != expected.shape:
        return result
    return to_strides(result, expected.stride())
