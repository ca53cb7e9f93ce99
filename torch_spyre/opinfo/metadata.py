"""Compare strides, dtypes and aliasing of real results, of fake results, and of the CPU's."""

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.testing._internal.opinfo.core import OpInfo

from torch_spyre.pytorch_internals.fake_tensor_logging import quiet_meta_functions
from torch_spyre.testing.op_samples import Arguments, tensors_of

# Results that depend on values, and ops without a fake kernel.
_NO_FAKE_RESULTS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)


def significant_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of the dims of size greater than 1: the others address nothing."""
    dims = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in dims if size > 1) if tensor.numel() else ()


def strides_difference(actual: torch.Tensor, expected: torch.Tensor) -> str | None:
    strides, expected_strides = significant_strides(actual), significant_strides(expected)
    if strides == expected_strides:
        return None
    return f"strides {strides}, expected {expected_strides}"


def aliasing_difference(
    actual: Any, expected: Any, arguments: Arguments, expected_arguments: Arguments
) -> str | None:
    """Return a difference in whether results alias arguments, or None."""
    for result, reference in zip(tensors_of(actual), tensors_of(expected), strict=True):
        is_alias = _aliases_argument(result, arguments)
        if is_alias != _aliases_argument(reference, expected_arguments):
            return f"{'aliases' if is_alias else 'does not alias'} an argument"
    return None


def fake_difference(op: OpInfo, card: Arguments, cpu: Arguments, expected: Any) -> str | None:
    """Return a difference between the results for fake tensors of the card and the CPU's."""
    try:
        with quiet_meta_functions(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fakes = card.fake(mode)
            results = fakes.call(op)
    except _NO_FAKE_RESULTS:
        return None
    tensors, expected_tensors = tensors_of(results), tensors_of(expected)
    if len(tensors) != len(expected_tensors):
        return f"{len(tensors)} fake results, expected {len(expected_tensors)}"
    for tensor, reference in zip(tensors, expected_tensors, strict=True):
        if tensor.dtype != reference.dtype or tensor.shape != reference.shape:
            return (
                f"fake {tensor.dtype} {tuple(tensor.shape)}, "
                f"expected {reference.dtype} {tuple(reference.shape)}"
            )
        problem = strides_difference(tensor, reference)
        if problem:
            return f"fake {problem}"
    problem = aliasing_difference(results, expected, fakes, cpu)
    return f"a fake result {problem}" if problem else None


def _aliases_argument(result: torch.Tensor, arguments: Arguments) -> bool:
    storage = result.untyped_storage()._cdata
    return any(storage == tensor.untyped_storage()._cdata for tensor in arguments.tensors)
