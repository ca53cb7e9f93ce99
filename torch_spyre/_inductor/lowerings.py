"""Our own lowerings: what an op becomes in Inductor's loops when it runs on the card."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import (
    broadcast_tensors,
    clone,
    expand,
    fallback_handler,
    full,
    get_promoted_dtype,
    index_impl,
    lowerings,
    make_pointwise,
    slice_,
    to_dtype,
    view,
)
from torch._inductor.virtualized import ops
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND
from torch.utils import _pytree as pytree

from torch_spyre._inductor.recording import PRODUCT, concrete
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
TABLE: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def lowers(*overloads: torch._ops.OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """None from a lowering means: Inductor's own. Only ops on the card get here."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            TABLE[overload] = _for_the_card(overload, function)
        return function

    return register


def _for_the_card(
    overload: torch._ops.OpOverload, function: Callable[..., Any]
) -> Callable[..., Any]:
    """A graph may compute on the CPU as well: there the op is Inductor's, or runs as it is."""

    def lowering(*args: Any, **kwargs: Any) -> Any:
        boxes = [each for each in pytree.tree_leaves(args) if isinstance(each, ir.TensorBox)]
        if any(box.get_device_or_error().type == DEVICE_NAME for box in boxes):
            return function(*args, **kwargs)
        if overload in lowerings and lowerings[overload] is not lowering:
            return None
        return fallback_handler(overload, add_to_fallback_set=False)(*args, **kwargs)

    return lowering


@lowers(aten.mm.default)
def _mm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    (rows, inner), (_, columns) = left.get_size(), right.get_size()
    return product(left, right, [rows, columns], inner)


@lowers(aten.bmm.default)
def _bmm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    batch, rows, inner = left.get_size()
    return product(left, right, [batch, rows, right.get_size()[2]], inner)


def product(
    left: ir.TensorBox, right: ir.TensorBox, size: Sequence[Any], inner: Any
) -> ir.TensorBox:
    load_left, load_right = read_from_memory(left), read_from_memory(right)
    if concrete(inner) == 0:
        nothing: ir.TensorBox = full(size, 0, dtype=left.get_dtype(), device=left.get_device())
        return nothing
    if concrete(inner) == 1:
        # A sum of one product: nothing to fold.
        zero = 0
        return ir.Pointwise.create(
            device=left.get_device(),
            dtype=left.get_dtype(),
            inner_fn=lambda index: ops.mul(
                load_left([*index[:-1], zero]), load_right([*index[:-2], zero, index[-1]])
            ),
            ranges=list(size),
        )
    result = ir.TensorBox.create(
        ir.Reduction(
            device=left.get_device_or_error(),
            dtype=left.get_dtype(),
            inner_fn=lambda index, along: (
                load_left([*index[:-1], along[0]]),
                load_right([*index[:-2], along[0], index[-1]]),
            ),
            ranges=list(size),
            reduction_ranges=[inner],
            reduction_type=PRODUCT,  # type: ignore[arg-type]  # a kind of our own
            src_dtype=left.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result


def read_from_memory(x: ir.TensorBox) -> Callable[[Sequence[Any]], Any]:
    """Loads elements of a tensor in memory, or of another one that this is a view of."""
    if not _only_moves(x):
        x.realize()
        data = x.data
        while isinstance(data, ir.MutableBox | ir.BaseView):
            data = data.data
        if isinstance(data, ir.ComputedBuffer) and data.num_reads() == 0:
            # It would be computed again where it is read.
            x = in_memory(clone(x))
    load: Callable[[Sequence[Any]], Any] = x.make_loader()
    return load


def _only_moves(x: ir.TensorBox) -> bool:
    """Is it another tensor, read in another way? Then a product reads that tensor."""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        data = data.data
    return isinstance(data, ir.Pointwise) and set(data.inner_fn_opcount().used_ops) == {"load"}


@lowers(aten.mean.default, aten.mean.dim)
def _mean(
    x: ir.TensorBox,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ir.TensorBox | None:
    if dtype is not None:
        x = to_dtype(x, dtype)
    size = x.get_size()
    dims = [dim] if isinstance(dim, int) else list(dim or range(len(size)))
    folded = sorted({each % len(size) for each in dims}) if size else []
    if not folded or any(concrete(each) == 0 for each in size):
        return None
    load = x.make_loader()
    kept = [each for each in range(len(size)) if each not in folded]

    def inner(index: Sequence[Any], along: Sequence[Any]) -> Any:
        place = [0] * len(size)
        points = index if not keepdim else [index[each] for each in kept]
        for each, value in zip(kept, points, strict=True):
            place[each] = value
        for each, value in zip(folded, along, strict=True):
            place[each] = value
        return load(place)

    ranges = [1 if each in folded else size[each] for each in range(len(size))]
    result = ir.TensorBox.create(
        ir.Reduction(
            device=x.get_device_or_error(),
            dtype=x.get_dtype(),
            inner_fn=inner,
            ranges=ranges if keepdim else [size[each] for each in kept],
            reduction_ranges=[size[each] for each in folded],
            reduction_type="mean",  # type: ignore[arg-type]  # a kind of our own
            src_dtype=x.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result


@lowers(aten.cat.default)
def _cat(tensors: Sequence[ir.TensorBox], dim: int = 0) -> Any:
    dtype = tensors[0].get_dtype()
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.get_dtype())
    parts = [to_dtype(each, dtype) for each in tensors]
    # PyTorch lets empty vectors join tensors of any rank.
    parts = [each for each in parts if len(each.get_size()) != 1 or concrete(each.get_size()[0])]
    if len(parts) < 2:
        return clone(parts[0]) if parts else None
    return ir.TensorBox(ir.ConcatKernel.create(parts, dim % len(parts[0].get_size())))


@lowers(aten.constant_pad_nd.default)
def _pad(x: ir.TensorBox, pad: Sequence[int], value: float = 0) -> ir.TensorBox:
    result = x
    rank = len(x.get_size())
    for position in range(len(pad) // 2):
        dim = rank - 1 - position
        low, high = pad[2 * position], pad[2 * position + 1]
        size = concrete(result.get_size()[dim])
        result = slice_(result, dim, max(0, -low), size - max(0, -high))
        parts = [_filled(result, dim, low, value), result, _filled(result, dim, high, value)]
        present = [each for each in parts if each is not None]
        if len(present) > 1:
            result = ir.TensorBox(ir.ConcatKernel.create(present, dim))
    return clone(result) if result is x else result


def _filled(like: ir.TensorBox, dim: int, count: int, value: float) -> ir.TensorBox | None:
    if count <= 0:
        return None
    size = list(like.get_size())
    size[dim] = count
    full = lowerings[aten.full.default]
    result: ir.TensorBox = full(size, value, dtype=like.get_dtype(), device=like.get_device())
    return result


def _custom(name: str) -> Callable[..., ir.TensorBox]:
    """A pointwise op that is one instruction of the card."""
    pointwise: Callable[..., ir.TensorBox] = make_pointwise(lambda x: getattr(ops, name)(x))
    return pointwise


@lowers(aten.silu.default)
def _silu(x: ir.TensorBox) -> ir.TensorBox | None:
    return _custom("silu")(x)


@lowers(aten.gelu.default)
def _gelu(x: ir.TensorBox, approximate: str = "none") -> ir.TensorBox | None:
    return _custom("gelu")(x) if approximate == "none" else None


@lowers(aten.pow.Tensor_Tensor)
def _integer_power(base: ir.TensorBox, exponent: ir.TensorBox) -> ir.TensorBox | None:
    dtype = get_promoted_dtype(
        base, exponent, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    if dtype.is_floating_point or dtype is torch.bool:
        return None

    def power(base: Any, exponent: Any) -> Any:
        zero, one = (ops.constant(each, dtype) for each in (0, 1))
        result, square = one, base
        for bit in range(31):
            shifted = ops.bitwise_right_shift(exponent, ops.constant(bit, dtype))
            used = ops.eq(ops.bitwise_and(shifted, one), one)
            result = ops.where(used, ops.mul(result, square), result)
            square = ops.mul(square, square)
        # The inverse of an integer is one only for 1 and -1.
        odd = ops.eq(ops.bitwise_and(exponent, one), one)
        sign = ops.where(odd, base, one)
        inverse = ops.where(ops.eq(ops.abs(base), one), sign, zero)
        return ops.where(ops.lt(exponent, zero), inverse, result)

    pointwise: Callable[..., ir.TensorBox] = make_pointwise(power)
    return pointwise(*_promoted(base, exponent, dtype))


# By products, a root or a reciprocal, which are quicker than the function and as good.
_POWERS_BY_PRODUCTS = (-1, -0.5, 0, 0.5, 1, 2, 3)


@lowers(aten.pow.Tensor_Scalar)
def _float_power(base: ir.TensorBox, exponent: float) -> ir.TensorBox | None:
    """Each product of a chain rounds: the seventh power would be four last places off."""
    dtype = base.get_dtype()
    if not dtype.is_floating_point or exponent in _POWERS_BY_PRODUCTS:
        return None
    power: Callable[..., ir.TensorBox] = make_pointwise(
        lambda x: ops.pow(x, ops.constant(float(exponent), dtype))
    )
    return power(base)


def _promoted(one: ir.TensorBox, other: ir.TensorBox, dtype: torch.dtype) -> list[ir.TensorBox]:
    found: list[ir.TensorBox] = broadcast_tensors(to_dtype(one, dtype), to_dtype(other, dtype))
    return found


@lowers(aten.embedding.default)
def _embedding(
    weight: ir.TensorBox,
    indices: ir.TensorBox,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> ir.TensorBox:
    return gathered(weight, [_on_their_own(indices)])


def _on_their_own(indices: ir.TensorBox) -> ir.TensorBox:
    """Kernels know index tensors by name: two parts of one tensor would be the same to them."""
    view = indices.data
    if not isinstance(view, ir.BaseView):
        return indices
    whole = [concrete(each) for each in view.unwrap_view().get_size()]
    if math.prod(whole) == math.prod(concrete(each) for each in indices.get_size()):
        return indices
    return in_memory(clone(indices))


@lowers(aten.index_select.default)
def _index_select(x: ir.TensorBox, dim: int, index: ir.TensorBox) -> ir.TensorBox:
    rank = len(x.get_size())
    if rank == 0:
        return copied(x)
    return gathered(x, [*[None] * (dim % rank), _at_least_1d(index)])


def _at_least_1d(x: ir.TensorBox) -> ir.TensorBox:
    return x if x.get_size() else view(x, [1])


@lowers(aten.index.Tensor)
def _index(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    wrapped: list[ir.TensorBox | None] = []
    for dim, index in enumerate(indices):
        if index is None:
            wrapped.append(None)
            continue
        if index.get_dtype() in (torch.bool, torch.uint8):
            raise UnsupportedError("indexing by flags")
        wrapped.append(wrapped_index(index, x.get_size()[dim]))
    return gathered(x, wrapped)


def wrapped_index(index: ir.TensorBox, size: Any) -> ir.TensorBox:
    """Negative indices count from the end."""
    load, dtype = index.make_loader(), index.get_dtype()

    def inner(place: Sequence[Any]) -> Any:
        value = load(place)
        below = ops.lt(value, ops.constant(0, dtype))
        return ops.where(below, ops.add(value, ops.constant(concrete(size), dtype)), value)

    return ir.Pointwise.create(
        device=index.get_device(), dtype=dtype, inner_fn=inner, ranges=index.get_size()
    )


def gathered(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    """Inductor's indexing, of tensors that are in memory: the card reads indices from there."""
    stored = [None if index is None else in_memory(index) for index in indices]
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    for dim, index in enumerate(stored):
        if index is not None:
            x = with_index_checked(x, x.get_size()[dim], index)
    result: ir.TensorBox = index_impl(readable(x, indexed), stored, check=False)
    return result


def readable(x: ir.TensorBox, indexed: Sequence[int]) -> ir.TensorBox:
    """In memory, in a shape that has the dims that are indexed: no two of them seen as one."""
    x.realize()
    if isinstance(x.data, ir.GenericView):
        return in_memory(clone(x))
    if isinstance(x.data, ir.ReinterpretView):
        seen, stored = x.data.get_layout(), x.data.data.get_layout()
        dims = list(zip(map(concrete, stored.stride), map(concrete, stored.size), strict=True))
        for dim in indexed:
            size, stride = concrete(seen.size[dim]), concrete(seen.stride[dim])
            if size > 1 and not any(stride == each and size <= most for each, most in dims):
                return in_memory(clone(x))
    return in_memory(x)


def in_memory(x: ir.TensorBox) -> ir.TensorBox:
    """Whoever loads a buffer that reads nothing, or a view of one, would compute it again."""
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


@lowers(aten.gather.default)
def _gather(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, sparse_grad: bool = False
) -> ir.TensorBox | None:
    if not x.get_size() or not index.get_size():
        return None
    dim %= len(x.get_size())
    x = with_index_checked(x, x.get_size()[dim], index)
    load, load_index = readable(x, [dim]).make_loader(), in_memory(index).make_loader()
    size = x.get_size()[dim]

    def inner(place: Sequence[Any]) -> Any:
        where = list(place)
        where[dim] = ops.indirect_indexing(load_index(place), size, check=False, wrap_neg=False)
        return load(where)

    return ir.Pointwise.create(
        device=x.get_device(), dtype=x.get_dtype(), inner_fn=inner, ranges=index.get_size()
    )


def with_index_checked(x: ir.TensorBox, size: Any, index: ir.TensorBox) -> ir.TensorBox:
    """The tensor, once indices into a dim of that size are known to be 0 if it is 1.

    Accesses have no such dim, so nothing would be checked by them: two zeros are read, instead.
    """
    if concrete(size) != 1 or any(concrete(n) == 0 for n in index.get_size()):
        return x
    load, dtype = in_memory(index).make_loader(), index.get_dtype()

    def outside(place: Sequence[Any]) -> Any:
        value = load(place)
        is_one = ops.eq(value, ops.constant(1, dtype))
        return ops.where(is_one, ops.constant(2, dtype), value)

    device = x.get_device()
    places = ir.Pointwise.create(
        device=device, dtype=dtype, inner_fn=outside, ranges=index.get_size()
    )
    zeros = in_memory(full([2], 0.0, dtype=torch.float16, device=device))
    read = index_impl(zeros, [in_memory(_at_least_1d(places))], check=False)
    largest = lowerings[aten.amax.default](read)
    same = lowerings[aten.eq.Scalar](largest, 0.0)
    result: ir.TensorBox = lowerings[aten.where.self](same, x, x)
    return result


def copied(x: ir.TensorBox) -> ir.TensorBox:
    result: ir.TensorBox = clone(x)
    result.realize()
    return result


def write_into(source: ir.TensorBox, part: ir.TensorBox) -> None:
    source = to_dtype(expand(source, part.get_size()), part.get_dtype())
    ir.MutationLayoutSHOULDREMOVE.realize_into(source, part)
