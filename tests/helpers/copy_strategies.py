"""Hypothesis strategies for copies: sizes, host tensors, layouts and chains of views."""

from collections.abc import Callable
from math import prod

import torch
from hypothesis import assume
from hypothesis import strategies as st

from torch_spyre.testing import formats, layouts
from torch_spyre.testing.layouts import Layout

DTYPES = list(formats.DEVICE_FORMATS)
EDGE_SIZES = [1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 128, 129, 200]
MAX_ELEMENTS = 8000


@st.composite
def sizes(draw: st.DrawFn, max_rank: int = 5) -> tuple[int, ...]:
    size: list[int] = []
    for _ in range(draw(st.integers(0, max_rank))):
        limit = MAX_ELEMENTS // max(1, prod(size))
        fitting = [extent for extent in EDGE_SIZES if extent <= limit]
        size.append(draw(st.sampled_from(fitting) | st.integers(0, min(limit, 200))))
    return tuple(draw(st.permutations(size)))


def random_host(size: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random bits of the dtype: for floats that means every exponent, NaN and infinity."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, size, generator=generator).bool()
    count = prod(size) * dtype.itemsize
    raw = torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8)
    return raw.view(dtype).reshape(size)


seeds = st.integers(0, 2**31)


@st.composite
def sources(draw: st.DrawFn, size: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A host tensor of this size that is permuted, sliced, stepped or expanded in its storage."""
    order = draw(st.permutations(range(len(size))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in size]
    starts = [draw(st.sampled_from([0, 0, 1, 5])) for _ in size]
    expanded = [draw(st.sampled_from([False, False, False, True])) for _ in size]
    base_size = [
        1 if expanded[d] else starts[d] + size[d] * steps[d] if size[d] else 0 for d in order
    ]
    assume(prod(base_size) <= 20 * MAX_ELEMENTS)
    base = random_host(tuple(base_size), dtype, draw(seeds))
    tensor = base.permute([order.index(d) for d in range(len(size))])
    for dim, extent in enumerate(size):
        if not expanded[dim] and extent > 0:
            tensor = tensor[(slice(None),) * dim + (slice(starts[dim], None, steps[dim]),)]
    return tensor.expand(size)


def ordered(size: tuple[int, ...], dtype: torch.dtype, order: list[int]) -> Layout:
    return layouts.layout(size, layouts.contiguous_strides(size), dtype, order)


@st.composite
def ragged_splits(draw: st.DrawFn, size: tuple[int, ...], dtype: torch.dtype) -> Layout:
    """Split the first host dim into runs that need not divide it; the last dim is the stick."""
    inner = layouts.default_layout(size[1:], dtype)
    run = draw(st.integers(1, size[0]))
    row = prod(size[1:])
    device_size = (run, *inner.device_size[:-1], -(-size[0] // run), inner.device_size[-1])
    stride_map = (row, *inner.stride_map[:-1], run * row, inner.stride_map[-1])
    return Layout(device_size, stride_map, inner.format)


def device_layouts(size: tuple[int, ...], dtype: torch.dtype) -> st.SearchStrategy[Layout]:
    """For contiguous host strides: default, any dim order, sparse, ragged or replicated."""
    default = layouts.default_layout(size, dtype)
    orders = st.permutations(range(len(size)))
    kinds = [
        st.just(default),
        orders.map(lambda order: ordered(size, dtype, list(order))),
        orders.map(lambda order: ordered(size, dtype, [*order, -1])),
        st.just(Layout((3, *default.device_size), (0, *default.stride_map), default.format)),
    ]
    if len(size) > 1 and prod(size) > 0:
        kinds.append(ragged_splits(size, dtype))
    return st.one_of(kinds)


View = Callable[[torch.Tensor], torch.Tensor]


@st.composite
def one_view(draw: st.DrawFn, shape: torch.Tensor, writable: bool) -> View:
    """Draw a view of a tensor with the metadata of `shape`."""
    kinds = ["unsqueeze"]
    if shape.dim() > 0:
        kinds += ["slice", "slice", "transpose", "transpose", "split", "squeeze"]
    if shape.dim() > 0 and shape.numel() > 0:
        kinds.append("select")
    if shape.is_contiguous():
        kinds += ["flatten", "flatten"]
    if not writable and 1 in shape.size():
        kinds.append("expand")
    kind = draw(st.sampled_from(kinds))
    if kind == "unsqueeze":
        place = draw(st.integers(0, shape.dim()))
        return lambda t: t.unsqueeze(place)
    if kind == "flatten":
        return lambda t: t.view(-1)
    if kind == "expand":
        repeat = draw(st.integers(1, 3))
        wide = [repeat if extent == 1 else extent for extent in shape.size()]
        return lambda t: t.expand(wide)
    dim = draw(st.integers(0, shape.dim() - 1))
    extent = shape.size(dim)
    if kind == "select":
        index = draw(st.integers(0, extent - 1))
        return lambda t: t.select(dim, index)
    if kind == "transpose":
        other = draw(st.integers(0, shape.dim() - 1))
        return lambda t: t.transpose(dim, other)
    if kind == "squeeze":
        return lambda t: t.squeeze(dim)
    if kind == "split":
        inner = draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0] or [1]))
        return lambda t: t.unflatten(dim, (extent // inner, inner))
    start = draw(st.integers(0, extent))
    stop = draw(st.integers(start, extent))
    step = draw(st.integers(1, 3))
    return lambda t: t[(slice(None),) * dim + (slice(start, stop, step),)]


@st.composite
def view_chains(draw: st.DrawFn, base: torch.Tensor, writable: bool) -> View:
    chain: list[View] = []
    shape = torch.empty_strided(base.size(), base.stride(), dtype=base.dtype, device="meta")
    for _ in range(draw(st.integers(0, 4))):
        chain.append(draw(one_view(shape, writable)))
        shape = chain[-1](shape)

    def apply(tensor: torch.Tensor) -> torch.Tensor:
        for view in chain:
            tensor = view(tensor)
        return tensor

    return apply
