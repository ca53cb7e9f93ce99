"""Results of decompositions get the strides of the op that is decomposed."""

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw, has_guarding_hint
from torch.utils import _pytree as pytree

from torch_spyre._inductor.argument_checks import META_FAILURES, TOO_STRICT_META
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.fake_tensor_logging import quiet_meta_functions

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


def in_order(x: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """Return a dense copy whose dims are laid out in an order, the outermost first."""
    inverse = [order.index(dim) for dim in range(x.dim())]
    return x.permute(*order).clone(memory_format=torch.contiguous_format).permute(*inverse)


def _is_fake_on_card(value: object) -> bool:
    return isinstance(value, FakeTensor) and value.device.type == DEVICE_NAME


def _fake_results(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """Return the op's results for fake tensors; an empty list if they are not known.

    The decomposition has accepted the arguments, so an error is one of the meta function: some
    cannot handle symbolic sizes.
    """
    if overload._schema.name in TOO_STRICT_META:
        return []
    with (
        disable_proxy_modes_tracing(),
        quiet_meta_functions(),
        suppress(RuntimeError, *META_FAILURES),
    ):
        return pytree.tree_leaves(overload(*args, **kwargs))
    return []


def _restrided(result: Any, expected: Any) -> Any:
    """Return the result with the strides of the expected one, if these are dense.

    Symbolic sizes are compared by their hints: the order of dims does not depend on sizes that are
    greater than 1, so that no guard is needed.
    """
    if not isinstance(result, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return result
    actual_hints, expected_hints = _hints(result), _hints(expected)
    if actual_hints is None or expected_hints is None:
        return result
    shape, strides = actual_hints
    expected_shape, expected_strides = expected_hints
    if shape != expected_shape or 0 in shape:
        return result
    if strides == expected_strides:
        return result
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    if all(strides[dim] == expected_strides[dim] for dim in dims):
        has_symbols = any(isinstance(size, torch.SymInt) for size in result.shape)
        return result if has_symbols else result.as_strided(shape, expected_strides)
    # Of two dims with one stride, that of size 1 is the inner one.
    order = sorted(range(len(shape)), key=lambda dim: (-expected_strides[dim], shape[dim] == 1))
    if not _is_dense([(shape[dim], expected_strides[dim]) for dim in order if shape[dim] != 1]):
        return result
    return in_order(result, order)


def _hints(tensor: torch.Tensor) -> tuple[list[int], list[int]] | None:
    """Return sizes and strides without symbols; None if one of them is known at run time only."""
    with disable_proxy_modes_tracing():
        sizes, strides = list(tensor.shape), list(tensor.stride())
        if not all(map(has_guarding_hint, (*sizes, *strides))):
            return None
        return list(map(guarding_hint_or_throw, sizes)), list(map(guarding_hint_or_throw, strides))


def _is_dense(dims: Sequence[tuple[int, int]]) -> bool:
    """Return whether dims, each a size and a stride, cover memory without gaps or overlaps."""
    step = 1
    for size, stride in reversed(dims):
        if stride != step:
            return False
        step *= size
    return True
