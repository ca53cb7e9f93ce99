"""Whatever is copied, from and to whatever view, exactly the right places change.

Hypothesis draws shapes, dtypes, host strides, layouts and chains of views; the golden model says
what the whole device memory must hold afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torch_spyre import _C
from torch_spyre.testing import formats, layouts
from torch_spyre.testing.layouts import Layout

DTYPES = list(formats.DEVICE_FORMATS)
EDGE_SIZES = [1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 128, 129, 200]
MOST_ELEMENTS = 8000
UNTOUCHED = 0xA5

many = settings(max_examples=80, deadline=None, derandomize=True, database=None)

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support int64")


# --- What is drawn --------------------------------------------------------------------------------


@st.composite
def sizes(draw: st.DrawFn, max_rank: int = 5) -> tuple[int, ...]:
    size: list[int] = []
    for _ in range(draw(st.integers(0, max_rank))):
        room = MOST_ELEMENTS // max(1, prod(size))
        fitting = [extent for extent in EDGE_SIZES if extent <= room]
        size.append(draw(st.sampled_from(fitting) | st.integers(0, min(room, 200))))
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
    assume(prod(base_size) <= 20 * MOST_ELEMENTS)
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
    """The first host dim cut into runs that need not divide it; the stick on the last."""
    rest = layouts.default_layout(size[1:], dtype)
    run = draw(st.integers(1, size[0]))
    row = prod(size[1:])
    device_size = (run, *rest.device_size[:-1], -(-size[0] // run), rest.device_size[-1])
    stride_map = (row, *rest.stride_map[:-1], run * row, rest.stride_map[-1])
    return Layout(device_size, stride_map, rest.format)


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
    """A view that can be taken of a tensor with the metadata of `shape`."""
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


# --- The card and the model side by side ----------------------------------------------------------


@dataclass
class Pair:
    """A device tensor, and what the golden model says its whole memory holds."""

    tensor: torch.Tensor
    layout: Layout
    codes: formats.Codes

    def put(self, view: View, codes: formats.Codes) -> None:
        target = view(self.tensor)
        layouts.write(self.codes, codes, self.layout, target.stride(), target.storage_offset())

    def get(self, view: View) -> formats.Codes:
        seen = view(self.tensor)
        place = (seen.size(), seen.stride(), seen.storage_offset())
        return layouts.read(self.codes, self.layout, *place)

    def read(self, view: View) -> torch.Tensor:
        return formats.load(self.get(view), self.tensor.dtype)

    def check_memory(self) -> None:
        np.testing.assert_array_equal(memory(self.tensor, self.layout), self.codes)


def memory(tensor: torch.Tensor, layout: Layout) -> formats.Codes:
    raw = _C._device_bytes(tensor).numpy()[: layout.device_bytes].copy()
    return raw.view(layout.format.code_dtype)


def card_layout(layout: Layout) -> _C.SpyreTensorLayout:
    return _C.SpyreTensorLayout(
        list(layout.device_size),
        list(layout.stride_map),
        getattr(_C.DataFormats, layout.format.name),
        getattr(_C.ElementArrangement, layout.arrangement),
    )


def untouched(size: tuple[int, ...], dtype: torch.dtype, layout: Layout) -> Pair:
    """A tensor whose memory holds a pattern in every byte, padding included."""
    tensor = torch.empty(size, dtype=dtype, device="spyre", device_layout=card_layout(layout))
    _C._set_device_bytes(tensor, torch.full_like(_C._device_bytes(tensor), UNTOUCHED))
    return Pair(tensor, layout, layout.empty_device(fill_byte=UNTOUCHED))


def written(host: torch.Tensor, layout: Layout) -> Pair:
    pair = untouched(tuple(host.size()), host.dtype, layout)
    pair.tensor.copy_(host)
    pair.put(whole, formats.store(host))
    return pair


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bit for bit, except that one NaN is as good as another."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[actual.itemsize]
    differs = actual.contiguous().view(bits) != expected.contiguous().view(bits)
    if actual.dtype.is_floating_point:
        differs &= ~(actual.float().isnan() & expected.float().isnan())
    assert not differs.any(), f"differ at {differs.nonzero()[:4].tolist()}"


# --- Properties -----------------------------------------------------------------------------------


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_any_host_tensor_comes_back_from_the_card(data, size, dtype):
    host = data.draw(sources(size, dtype))
    device = host.to("spyre")
    assert_same(device.cpu(), formats.load(formats.store(host), dtype))
    layout = layouts.layout(size, device.stride(), dtype, range(len(size)))
    stored = memory(device, layout)
    expected = stored.copy()
    layouts.write(expected, formats.store(host), layout, device.stride())
    np.testing.assert_array_equal(stored, expected)


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_copying_to_any_layout_writes_every_element_and_no_padding(data, size, dtype):
    pair = written(data.draw(sources(size, dtype)), data.draw(device_layouts(size, dtype)))
    pair.check_memory()
    assert_same(pair.tensor.cpu(), pair.read(whole))


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_any_view_of_any_layout_reads_the_elements_it_names(data, size, dtype):
    pair = written(
        random_host(size, dtype, data.draw(seeds)), data.draw(device_layouts(size, dtype))
    )
    view = data.draw(view_chains(pair.tensor, writable=False))
    seen = view(pair.tensor)
    assert seen.device_tensor_layout() == pair.tensor.device_tensor_layout()
    assert_same(seen.cpu(), pair.read(view))


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_reading_into_a_host_view_changes_only_that_view(data, size, dtype):
    pair = written(
        random_host(size, dtype, data.draw(seeds)), data.draw(device_layouts(size, dtype))
    )
    view = data.draw(view_chains(pair.tensor, writable=False))
    expected = pair.read(view)
    margin = torch.ones([extent * 2 + 1 for extent in expected.size()]).to(dtype)
    inside = tuple(slice(1, extent * 2 + 1, 2) for extent in expected.size())
    model = margin.clone()
    model[inside] = expected
    margin[inside].copy_(view(pair.tensor))
    assert_same(margin, model)


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_copying_into_a_view_changes_exactly_its_elements(data, size, dtype):
    pair = untouched(size, dtype, data.draw(device_layouts(size, dtype)))
    view = data.draw(view_chains(pair.tensor, writable=True))
    host = data.draw(sources(tuple(view(pair.tensor).size()), dtype))
    view(pair.tensor).copy_(host)
    pair.put(view, formats.store(host))
    pair.check_memory()


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_copying_on_the_card_between_layouts_moves_codes_unchanged(data, size, dtype):
    source = written(
        random_host(size, dtype, data.draw(seeds)), data.draw(device_layouts(size, dtype))
    )
    view = data.draw(view_chains(source.tensor, writable=False))
    seen = tuple(view(source.tensor).size())
    target = untouched(seen, dtype, data.draw(device_layouts(seen, dtype)))
    target.tensor.copy_(view(source.tensor))
    target.put(whole, source.get(view))
    target.check_memory()
    source.check_memory()


@many
@given(st.data(), sizes(max_rank=4), st.sampled_from(DTYPES))
def test_copying_on_the_card_into_a_view_changes_exactly_its_elements(data, size, dtype):
    target = untouched(size, dtype, data.draw(device_layouts(size, dtype)))
    view = data.draw(view_chains(target.tensor, writable=True))
    seen = tuple(view(target.tensor).size())
    host = random_host(seen, dtype, data.draw(seeds))
    source = written(host, data.draw(device_layouts(seen, dtype)))
    view(target.tensor).copy_(source.tensor)
    target.put(view, source.get(whole))
    target.check_memory()


@many
@given(st.data(), sizes(), st.sampled_from(DTYPES))
def test_moving_to_another_layout_on_the_card_keeps_the_tensor(data, size, dtype):
    pair = written(
        random_host(size, dtype, data.draw(seeds)), data.draw(device_layouts(size, dtype))
    )
    layout = card_layout(data.draw(device_layouts(size, dtype)))
    moved = pair.tensor.to(device_layout=layout)
    assert moved.device_tensor_layout() == layout
    assert_same(moved.cpu(), pair.read(whole))


@many
@given(st.data(), sizes(max_rank=3), st.sampled_from(["DL16_TO_FP32", "FP32_TO_DL16"]))
def test_staggered_sticks_are_copied_in_their_own_order(data, rows, name):
    dtype = torch.float32 if name == "DL16_TO_FP32" else torch.float16
    size = (*rows, 64 * data.draw(st.integers(1, 3)))
    assume(prod(size) <= 4 * MOST_ELEMENTS)
    plain = layouts.default_layout(size, dtype)
    layout = Layout(plain.device_size, plain.stride_map, plain.format, name)
    pair = written(random_host(size, dtype, data.draw(seeds)), layout)
    pair.check_memory()
    view = data.draw(view_chains(pair.tensor, writable=False))
    assert_same(view(pair.tensor).cpu(), pair.read(view))


# --- Worked cases ---------------------------------------------------------------------------------


def numbers(*size: int) -> torch.Tensor:
    return (torch.arange(prod(size)) % 1021).reshape(size).half()


@pytest.mark.parametrize("step", [3, 5, 7, 63, 65])
def test_steps_that_do_not_divide_a_stick_are_copied_both_ways(step):
    host = numbers(70_000)
    card = host.to("spyre")
    assert torch.equal(card[1::step].cpu(), host[1::step])
    card[2::step] = -host[2::step].to("spyre")
    host[2::step] = -host[2::step]
    assert torch.equal(card.cpu(), host)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[::2],
        lambda t: t[5:9, 0].unsqueeze(0).expand(3, 4),
        lambda t: t[:, 60:],
        lambda t: t[3, 10:100:7],
        lambda t: t.view(-1)[119:],
        lambda t: t.unfold(1, 5, 3),
        lambda t: t.diagonal(),
    ],
)
def test_common_views_read_back_as_on_the_host(view):
    host = numbers(40, 120)
    device = host.to("spyre")
    assert view(device).device_tensor_layout() == device.device_tensor_layout()
    assert torch.equal(view(device).cpu(), view(host))


def test_a_view_made_before_a_copy_sees_the_copied_data():
    host = numbers(512, 512)
    device = torch.empty(512, 512, dtype=torch.float16, device="spyre")
    view = device.view(64, 8, 512)
    device.copy_(host)
    assert torch.equal(view.cpu(), host.view(64, 8, 512))


def test_a_transposed_source_wider_than_a_stick_lands_right():
    host = numbers(130, 40).t()
    device = torch.empty(40, 130, dtype=torch.float16, device="spyre").copy_(host)
    assert torch.equal(device.cpu(), host)


def test_a_transposed_view_reads_into_a_contiguous_host_tensor():
    host = numbers(130, 40)
    target = torch.zeros(40, 130, dtype=torch.float16)
    target.copy_(host.to("spyre").t())
    assert torch.equal(target, host.t())
