"""Copies between any views write exactly the expected elements.

Hypothesis draws shapes, dtypes, host strides, layouts and chains of views; the golden model
computes the expected content of the whole device memory.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
import torch
from copy_strategies import (
    DTYPES,
    MAX_ELEMENTS,
    View,
    device_layouts,
    random_host,
    seeds,
    sizes,
    sources,
    view_chains,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torch_spyre import _C
from torch_spyre.testing import formats, layouts
from torch_spyre.testing.layouts import Layout

UNTOUCHED = 0xA5

many = settings(max_examples=80, deadline=None, derandomize=True, database=None)

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support int64")


# --- The card and the model side by side ----------------------------------------------------------


@dataclass
class Pair:
    """A device tensor, and the content of its memory in the golden model."""

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
def test_layout_change_on_the_card_preserves_the_elements(data, size, dtype):
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
    assume(prod(size) <= 4 * MAX_ELEMENTS)
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


def test_view_created_before_a_copy_reads_the_copied_data():
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
