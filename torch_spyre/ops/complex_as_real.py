"""Complex tensors on the card: a pair of real tensors, the real and the imaginary part.

The card has no complex format. But models that compute rotary embeddings with complex numbers
convert from and to real tensors by `polar`, `view_as_complex` and `view_as_real`. PyTorch has a
tensor subclass for the complex values in between; a graph traced with it has only real ops.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.complex_tensor import ComplexTensor
from torch.utils._pytree import tree_map_only

from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
_PART_DTYPES = (torch.float16, torch.float32)
_SCALED = (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar)


class ComplexPair(ComplexTensor):
    """A complex tensor as two real tensors. It aliases no other tensor and is read-only."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch names no types
        cls,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            raise UnsupportedError(
                f"{func}, which writes to a complex tensor: write to its real and imaginary parts "
                "before view_as_complex instead"
            )
        if func in _SCALED and isinstance(args[1], int | float):
            # PyTorch's class would convert the scalar to a complex host tensor.
            return cls(func(args[0].re, args[1]), func(args[0].im, args[1]))
        if func is aten._to_copy.default and _is_host(kwargs.get("device")):
            parts = torch.complex(args[0].re.cpu(), args[0].im.cpu())
            return parts.to(kwargs.get("dtype") or parts.dtype)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return tree_map_only(ComplexTensor, lambda tensor: cls(tensor.re, tensor.im), result)

    @staticmethod
    def __tensor_unflatten__(
        inner_tensors: dict[str, torch.Tensor],
        meta: Any,
        outer_size: tuple[int, ...],
        outer_stride: tuple[int, ...],
    ) -> "ComplexPair":
        return ComplexPair(inner_tensors["_re"], inner_tensors["_im"])


class _Paired(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real: torch.Tensor, imaginary: torch.Tensor) -> ComplexPair:
        return ComplexPair(real, imaginary)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient.real, gradient.imag


def _scalar_type(tensor: torch.Tensor) -> str:
    """Return the dtype as PyTorch's messages spell it: Float, Long."""
    return tensor.type().rpartition(".")[2].removesuffix("Tensor")


def _check_parts(first: torch.Tensor, second: torch.Tensor) -> None:
    """Check dtypes as the CPU's kernels do."""
    types = _scalar_type(first), _scalar_type(second)
    torch._check(
        first.dtype in _PART_DTYPES and second.dtype in _PART_DTYPES,
        lambda: (
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{types[0]} and {types[1]}"
        ),
    )
    torch._check(
        first.dtype == second.dtype,
        lambda: (
            f"Expected object of scalar type {types[0]} but got scalar type {types[1]} "
            "for second argument"
        ),
    )


def paired(real: torch.Tensor, imaginary: torch.Tensor) -> ComplexPair:
    _check_parts(real, imaginary)
    parts = torch.broadcast_tensors(real, imaginary)
    result: ComplexPair = _Paired.apply(*parts)  # type: ignore[no-untyped-call]  # torch has none
    return result


def polar(length: torch.Tensor, angle: torch.Tensor) -> ComplexPair:
    _check_parts(length, angle)
    return paired(length * torch.cos(angle), length * torch.sin(angle))


def view_as_complex(x: torch.Tensor) -> ComplexPair:
    torch._check(
        x.dtype in _PART_DTYPES,
        lambda: (
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {_scalar_type(x)}"
        ),
    )
    torch._check(x.dim() > 0, lambda: "Input tensor must have one or more dimensions")
    torch._check(x.shape[-1] == 2, lambda: "Tensor must have a last dimension of size 2")
    # The parts are copied from any strides; PyTorch's views need these.
    torch._check(x.stride(-1) == 1, lambda: "Tensor must have a last dimension with stride 1")
    torch._check(
        all(stride % 2 == 0 for stride in x.stride()[:-1]),
        lambda: "Tensor must have a stride divisible by 2 for all but last dimension",
    )
    return paired(x[..., 0], x[..., 1])


CONSTRUCTORS: dict[str, Callable[..., ComplexPair]] = {
    "complex": paired,
    "polar": polar,
    "view_as_complex": view_as_complex,
}


def _is_host(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"
