"""The ops of PyTorch's transformer modules in eval mode: shapes of results, and padded batches.

`nn.TransformerEncoder` makes a nested tensor of a batch with a padding mask, which drops the padded
rows, and pads the result of its layers with zeros. The card has no nested tensors: a `PaddedBatch`
takes its place, which retains the padded rows, masks them as keys, and replaces them by zeros at
the end.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_impls import register_op_impl
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from torch_spyre.constants import DEVICE_NAME

aten = torch.ops.aten
# PyTorch has no shapes for the results of these.
_WITHOUT_SHAPES = (
    aten._masked_softmax.default,
    aten._masked_softmax_backward.default,
    aten._native_multi_head_attention.default,
    aten._transform_bias_rescale_qkv.default,
    aten._transformer_encoder_layer_fwd.default,
)
_ATTENTION = (
    aten._native_multi_head_attention.default,
    aten._transformer_encoder_layer_fwd.default,
)
_MASK_OF_KEYS = 1


def register() -> None:
    """Register the shapes of results for fake tensors on the card."""
    for overload in _WITHOUT_SHAPES:
        register_op_impl(overload)(_run_decomposition)


def _run_decomposition(
    mode: FakeTensorMode, overload: torch._ops.OpOverload, *args: Any, **kwargs: Any
) -> Any:
    if args[0].device.type != DEVICE_NAME:
        return NotImplemented
    from torch_spyre._inductor.decompositions import registry, transformer  # noqa: F401

    # Not from the table, whose functions give results the strides that this function returns.
    with mode:
        return registry.DECOMPOSITIONS[overload](*args, **kwargs)


class PaddedBatch(Tensor):
    """A batch of sequences of different lengths, padded to (batch, length, channels).

    Ops run on the padded values. Attention does not see padded keys.
    """

    _sequences: Tensor
    _is_padding: Tensor

    # Modules choose their fast path for tensors without an override of functions only.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type["PaddedBatch"], values: Tensor, is_padding: Tensor) -> "PaddedBatch":
        batch: PaddedBatch = Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=values.device,
        )
        batch._sequences, batch._is_padding = values, is_padding
        return batch

    def __repr__(self) -> str:  # type: ignore[override]  # torch's has an argument
        return f"PaddedBatch({self._sequences}, is_padding={self._is_padding})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch names no types
        cls,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        is_padding = next(leaf for leaf in args if isinstance(leaf, cls))._is_padding
        values, options = tree_map_only(cls, lambda batch: batch._sequences, (args, kwargs or {}))
        if func is aten.to_padded_tensor.default:
            return _padded(is_padding, *values, **options)
        if func in _ATTENTION:
            # The mask and its type are the last arguments of the one op; the other has two between.
            names = [argument.name for argument in func._schema.arguments]
            options = {**dict(zip(names, values, strict=False)), **options}
            options |= {"mask": is_padding, "mask_type": _MASK_OF_KEYS}
            values = ()
        results = func(*values, **options)
        return tree_map_only(Tensor, lambda result: cls(result, is_padding), results)


def is_left_aligned(values: Tensor, mask: Tensor) -> bool:
    """Return whether the elements that the mask selects are the first ones of each row."""
    _check_mask(values, mask)
    return torch.equal(mask, ~_padding_behind(mask))


def from_mask(values: Tensor, mask: Tensor, mask_check: bool = True) -> PaddedBatch:
    """Return a batch whose sequences have as many rows as the mask selects."""
    _check_mask(values, mask)
    is_padding = _padding_behind(mask)
    torch._check(
        not mask_check or torch.equal(mask, ~is_padding), lambda: "Mask must be left-aligned"
    )
    return PaddedBatch(values, is_padding)


def _check_mask(values: Tensor, mask: Tensor) -> None:
    torch._check(
        mask.dtype is torch.bool,
        lambda: f"Expected mask to be of ScalarType Bool, but got {mask.dtype} instead.",
    )
    torch._check(mask.dim() == 2, lambda: "Padding mask should be 2D")
    torch._check(values.dim() == 3, lambda: "Input should be a 3D tensor, N * L * D")
    torch._check(mask.shape == values.shape[:2], lambda: "Mask size should match input size")


def _padding_behind(mask: Tensor) -> Tensor:
    """Return which elements come behind as many as the mask selects in their row."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    return positions >= mask.sum(1, keepdim=True)


def _padded(is_padding: Tensor, values: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """Return the values with padding in place of padded rows, in a given size."""
    result = values.masked_fill(is_padding.unsqueeze(-1), padding)
    if output_size is None:
        return result
    missing = [size - have for size, have in zip(output_size, values.shape, strict=True)]
    pads = [end for size in reversed(missing) for end in (0, size)]
    return torch.constant_pad_nd(result, pads, padding) if any(missing) else result
