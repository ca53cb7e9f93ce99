"""How strides, offset and device layout of a tensor follow from the sizes of a call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.layouts.sticks import ordered_layout
from torch_spyre.errors import UnsupportedError

# Layouts of tensors with more dims are looked for among those in the order of the dims only.
_MAX_PERMUTED = 4
_SPARSE = -1

Sizes = tuple[int, ...]


class TensorForm(ABC):
    """The metadata of a tensor as a function of its sizes and of the dynamic sizes of the call."""

    @abstractmethod
    def at(self, size: Sizes, dynamic: Sizes) -> Tensor:
        """Return the metadata of the tensor with these sizes."""


@dataclass(frozen=True)
class DenseForm(TensorForm):
    """A dense tensor that is the whole of its storage; strides and layout follow from its sizes."""

    example: Tensor
    # Dims by descending stride.
    stride_order: tuple[int, ...]
    # Dims as its layout orders them, the stick last.
    layout_order: tuple[int, ...]

    def at(self, size: Sizes, dynamic: Sizes) -> Tensor:
        stride = _dense_strides(size, self.stride_order)
        layout = ordered_layout(size, stride, self.example.dtype, self.layout_order)
        return replace(self.example, size=size, stride=stride, layout=layout)


@dataclass(frozen=True)
class ViewForm(TensorForm):
    """A view whose strides, offset and layout are linear functions of the call's dynamic sizes."""

    example: Tensor
    stride: Sequence[Callable[[Sizes], int]]
    offset: Callable[[Sizes], int]
    device_size: Sequence[Callable[[Sizes], int]]
    stride_map: Sequence[Callable[[Sizes], int]]

    def at(self, size: Sizes, dynamic: Sizes) -> Tensor:
        layout = self.example.layout
        assert layout is not None
        return replace(
            self.example,
            size=size,
            stride=tuple(step(dynamic) for step in self.stride),
            offset=self.offset(dynamic),
            layout=SpyreTensorLayout(
                [extent(dynamic) for extent in self.device_size],
                [step(dynamic) for step in self.stride_map],
                layout.device_dtype,
            ),
        )


@dataclass(frozen=True)
class NumberForm(TensorForm):
    """An integer argument of a graph, as a tensor of this size without a layout."""

    example: Tensor

    def at(self, size: Sizes, dynamic: Sizes) -> Tensor:
        return replace(self.example, size=size)


def number(value: int) -> Tensor:
    """Return an integer argument of a graph in the form of a tensor."""
    return Tensor("", (value,), (1,), torch.int64)


def number_form(tensor: Tensor) -> NumberForm | None:
    """Return the form of an integer argument; None for a tensor."""
    return NumberForm(tensor) if tensor.layout is None else None


def dense_form(first: Tensor, second: Tensor) -> DenseForm | None:
    """Return the dense form that both tensors have; None if they have none."""
    stride_order = _dense_order(second)
    if second.offset or stride_order is None:
        return None
    for order in _layout_orders(len(second.size)):
        form = DenseForm(second, stride_order, order)
        if all(form.at(tensor.size, ()) == tensor for tensor in (first, second)):
            return form
    return None


def view_form(
    first: Tensor, second: Tensor, first_sizes: Sizes, second_sizes: Sizes
) -> ViewForm | None:
    """Return the form that two views have at these dynamic sizes; None if they have none."""
    before, after = first.layout, second.layout
    if before is None or after is None or len(first.size) != len(second.size):
        return None
    if (before.device_dtype, len(before.device_size)) != (
        after.device_dtype,
        len(after.device_size),
    ):
        return None
    fit = _Fit(first_sizes, second_sizes)
    lane_stride, stick = after.stride_map[-1], after.device_size[-1]
    rows = _positions_along_sticks(fit, first, second, lane_stride)
    try:
        return ViewForm(
            second,
            [fit.linear(*pair) for pair in zip(first.stride, second.stride, strict=True)],
            fit.linear(first.offset, second.offset),
            [
                fit.stick_count(*pair, stick, rows if step == stick * lane_stride else ())
                for pair, step in zip(
                    zip(before.device_size, after.device_size, strict=True),
                    after.stride_map,
                    strict=True,
                )
            ],
            [fit.linear(*pair) for pair in zip(before.stride_map, after.stride_map, strict=True)],
        )
    except UnsupportedError:
        return None


def _positions_along_sticks(
    fit: "_Fit", first: Tensor, second: Tensor, lane_stride: int
) -> list[int]:
    """Return the dynamic sizes that may be lengths along the sticks of a view's storage."""
    lengths = set(zip(first.stride, second.stride, strict=True))
    dims = zip(first.size, second.size, second.stride, strict=True)
    lengths |= {(old, new) for old, new, stride in dims if stride == lane_stride}
    pairs = zip(fit.first, fit.second, strict=True)
    return [position for position, pair in enumerate(pairs) if pair in lengths]


@dataclass(frozen=True)
class _Fit:
    """Finds functions of the dynamic sizes from their values in two calls.

    Where several functions have these values, a wrong choice makes the form fit no other call.
    """

    first: Sizes
    second: Sizes

    def linear(self, before: int, after: int) -> Callable[[Sizes], int]:
        """Return a constant, or a linear function of one size."""
        if before == after:
            return lambda sizes: after
        for position, (old, new) in enumerate(zip(self.first, self.second, strict=True)):
            factor, remainder = divmod(after - before, new - old)
            if remainder == 0 and factor > 0:
                return _linear(position, factor, after - factor * new)
        raise UnsupportedError(f"a number that is {before} and then {after}")

    def stick_count(
        self, before: int, after: int, stick: int, positions: Sequence[int]
    ) -> Callable[[Sizes], int]:
        """Return a number of sticks of one of these sizes, or a linear function of any size."""
        for position in positions:
            old, new = self.first[position], self.second[position]
            if (before, after) == (-(-old // stick), -(-new // stick)):
                return _stick_count(position, stick)
        return self.linear(before, after)


def _linear(position: int, factor: int, constant: int) -> Callable[[Sizes], int]:
    return lambda sizes: constant + factor * sizes[position]


def _stick_count(position: int, stick: int) -> Callable[[Sizes], int]:
    return lambda sizes: -(-sizes[position] // stick)


def _dense_order(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the dims by descending stride; None if the tensor is not dense."""
    order = tuple(sorted(range(len(tensor.size)), key=lambda dim: -tensor.stride[dim]))
    return order if _dense_strides(tensor.size, order) == tensor.stride else None


def _dense_strides(size: Sizes, order: Sequence[int]) -> tuple[int, ...]:
    stride, strides = 1, [0] * len(size)
    for dim in reversed(order):
        strides[dim] = stride
        stride *= size[dim]
    return tuple(strides)


def _layout_orders(rank: int) -> list[tuple[int, ...]]:
    """Return the orders of dims to look for, the default one first."""
    default = tuple(range(rank))
    dense = list(permutations(range(rank))) if rank <= _MAX_PERMUTED else [default]
    # In a sparse layout each stick has one element.
    return [*dense, *((*order, _SPARSE) for order in dense)]
