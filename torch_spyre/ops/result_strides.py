"""Strides of results, where PyTorch's fake tensors differ from its CPU kernels.

The strides of a result are part of an op's contract: `view` depends on them. On the card they are
those of the CPU. Eager plans and compiled graphs take them from fake tensors, which agree with the
CPU except for the ops listed here: some decide by the device, others ignore the memory format or
the order of broadcast dims. `pytorch_internals/fake_strides.py` applies the rules to fake tensors
of the card. `spyre opinfo` compares real, fake and CPU results.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._prims_common import (
    make_channels_last_strides_for,
    make_contiguous_strides_for,
    suggest_memory_format,
)

from torch_spyre.ops import attention

Strides = tuple[int, ...]
# Returns the strides of the first result of a call, given its arguments and that result.
Rule = Callable[[Sequence[Any], torch.Tensor], Strides]

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _contiguous(_: Sequence[Any], result: torch.Tensor) -> Strides:
    return tuple(make_contiguous_strides_for(result.shape))


def _in_memory_format_of_input(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of channels_last if the input is, or else of a contiguous tensor."""
    return _channels_last_if(_is_channels_last(args[0]), result)


def _elementwise(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of `TensorIterator`, which most elementwise ops use."""
    operands = [value for value in args[:2] if isinstance(value, torch.Tensor)]
    return tuple(torch.eq(operands[0], operands[1] if len(operands) > 1 else 0).stride())


def _convolution(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of channels_last if the input or the weight is.

    A 1-D convolution is a 2-D convolution of the contiguous input.
    """
    x, weight = args[:2]
    is_transposed = args[6]
    if is_transposed and weight.dim() == 5:
        return _as_on_cpu(torch.ops.aten.convolution.default, args)  # one of its two kernels
    if weight.dim() != 3:
        return _channels_last_if(_is_channels_last(x) or _is_channels_last(weight), result)
    strides = _channels_last_if(_is_channels_last(weight.unsqueeze(2)), result.unsqueeze(-2))
    return (*strides[:-2], strides[-1])


def _roll(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of the parts that the CPU concatenates, one dim after the other."""
    x, shifts, *dims = args
    if not dims or not dims[0]:
        return _contiguous(args, result)
    for shift, dim in zip(shifts, dims[0], strict=True):
        size = x.shape[dim]
        start = (size - shift) % size if size else 0
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return tuple(x.stride())


def _ldexp(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of the product with `pow(2.0, other)`, which is contiguous.

    For 16-bit floats PyTorch raises a tensor of that dtype to the power, in the order of `other`.
    """
    x, other = args
    if x.is_floating_point() and x.dtype.itemsize == 2:
        return _elementwise(args, result)
    return _elementwise((x, other.contiguous()), result)


def _copied(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of a copy: those of a dense input, and else without its gaps."""
    return tuple(torch.empty_like(args[0]).stride())


def _attention(args: Sequence[Any], result: torch.Tensor) -> Strides:
    """Return the strides of the query where the CPU has one kernel; otherwise those of a matmul."""
    query = args[0]
    if not attention.has_kernel_on_cpu(*args[:3]):
        return _contiguous(args, result)
    return tuple(torch.empty_like(query).stride())


def _as_on_cpu(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Strides:
    """Return the strides that fake CPU tensors give."""
    on_cpu = [
        torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
        if isinstance(value, torch.Tensor)
        else value
        for value in args
    ]
    return tuple(overload(*on_cpu).stride())


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return suggest_memory_format(tensor) is _CHANNELS_LAST.get(tensor.dim())


def _channels_last_if(condition: bool, result: torch.Tensor) -> Strides:
    make = make_channels_last_strides_for if condition else make_contiguous_strides_for
    return tuple(make(result.shape))


_RULES: dict[Rule, str] = {
    _contiguous: """
        nll_loss2d_forward nonzero_static normal.Tensor_Tensor pow.Scalar
    """,
    _in_memory_format_of_input: """
        _batch_norm_no_update _batch_norm_with_update _native_batch_norm_legit
        _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training channel_shuffle max_unpool2d native_batch_norm
        pixel_shuffle reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d
    """,
    _elementwise: """
        copysign.Tensor div.Tensor_mode floor_divide heaviside logaddexp logaddexp2
        logical_and logical_or logical_xor native_dropout_backward special_xlog1py xlogy.Tensor
    """,
    _convolution: "convolution",
    _copied: "prims::device_put",
    _ldexp: "ldexp.Tensor",
    _roll: "roll",
    _attention: "_scaled_dot_product_fused_attention_overrideable",
}


@cache
def rules() -> dict[torch._ops.OpOverload, Rule]:
    """Return the rules by overload."""
    return {_overload(name): rule for rule, names in _RULES.items() for name in names.split()}


def _overload(name: str) -> torch._ops.OpOverload:
    namespace, _, op = name.rpartition("::")
    op, _, variant = op.partition(".")
    packet = getattr(getattr(torch.ops, namespace or "aten"), op)
    overload: torch._ops.OpOverload = getattr(packet, variant or "default")
    return overload
