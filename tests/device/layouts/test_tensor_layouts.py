"""Tensors are stored in device memory as their layouts specify."""

import numpy as np
import pytest
import torch

from torch_spyre import _C
from torch_spyre.testing import formats, layouts
from torch_spyre.testing.layouts import EXPLICIT_LAYOUTS, WORKED_LAYOUTS, WorkedLayout

DataFormats = _C.DataFormats
ElementArrangement = _C.ElementArrangement
SpyreTensorLayout = _C.SpyreTensorLayout
FP16 = torch.float16

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support int64")


def small_integers(*size: int) -> torch.Tensor:
    """Distinct neighbours, exact on the card."""
    return (torch.arange(int(np.prod(size))) % 1021).reshape(size).half()


def device_codes(tensor: torch.Tensor, layout: layouts.Layout) -> np.ndarray:
    raw = _C._device_bytes(tensor).numpy()[: layout.device_bytes]
    return raw.view(layout.format.code_dtype)


def fill_device(tensor: torch.Tensor, byte: int) -> None:
    _C._set_device_bytes(tensor, torch.full_like(_C._device_bytes(tensor), byte))


# --- Tensors with layouts -------------------------------------------------------------------------


def test_a_tensor_moved_to_the_card_has_the_default_layout():
    moved = torch.rand(512, 256).half().to("spyre")
    assert moved.device_tensor_layout() == SpyreTensorLayout([512, 256], FP16)
    assert _C.get_spyre_tensor_layout(moved) == moved.device_tensor_layout()


def test_transposed_host_tensor_preserves_its_strides():
    host = small_integers(512, 256).t()
    moved = host.to("spyre")
    assert moved.stride() == host.stride()
    layout = moved.device_tensor_layout()
    assert (layout.device_size, layout.stride_map) == ([8, 256, 64], [16384, 1, 256])
    assert torch.equal(moved.cpu(), host)


def test_a_host_tensor_has_no_layout():
    assert torch.rand(3).device_tensor_layout() is None
    with pytest.raises(RuntimeError):
        _C.get_spyre_tensor_layout(torch.rand(3))


@pytest.mark.parametrize(
    ("size", "dtype", "storage_bytes"),
    [
        ([3, 200], torch.float8_e4m3fn, 768),
        ([100], torch.int64, 800),
        ([2], FP16, 128),
        ([65], FP16, 256),
        ([64, 64], torch.bool, 8192),
        ([], FP16, 128),
    ],
)
def test_storage_holds_the_larger_of_device_and_host_bytes(size, dtype, storage_bytes):
    tensor = torch.empty(size, dtype=dtype, device="spyre")
    assert tensor.untyped_storage().nbytes() == storage_bytes


def test_only_contiguous_memory_formats_are_accepted():
    with pytest.raises(RuntimeError, match="only supports contiguous memory format"):
        torch.empty((2, 3, 4, 5), device="spyre", memory_format=torch.channels_last)
    layout = SpyreTensorLayout([4, 8], FP16)
    kept = torch.empty(
        (4, 8), dtype=FP16, device_layout=layout, memory_format=torch.preserve_format
    )
    assert kept.device_tensor_layout() == layout


def shrunk(worked: WorkedLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return host size and strides of a worked layout, reduced to a size that can be compared."""
    if worked.strides is not None:
        return worked.host_size, worked.strides
    size = tuple(min(extent, 130) for extent in worked.host_size)
    return size, layouts.contiguous_strides(size)


@pytest.mark.parametrize("worked", WORKED_LAYOUTS, ids=repr)
def test_device_offsets_match_the_golden_model(worked):
    size, strides = shrunk(worked)
    golden = layouts.layout(size, strides, worked.dtype, worked.dim_order)
    layout = SpyreTensorLayout(size, strides, worked.dtype, worked.dim_order)
    host = small_integers(*size).remainder(113).to(worked.dtype).as_strided(size, strides)
    device = _C.spyre_empty_with_layout(size, strides, worked.dtype, layout)
    fill_device(device, 0xA5)
    device.copy_(host)
    expected = golden.empty_device(fill_byte=0xA5)
    layouts.write(expected, formats.store(host), golden, strides)
    np.testing.assert_array_equal(device_codes(device, golden), expected)
    assert torch.equal(device.cpu().float(), host.float())


@pytest.mark.parametrize(("size", "device_size", "stride_map"), EXPLICIT_LAYOUTS)
def test_explicit_layouts_round_trip(size, device_size, stride_map):
    layout = SpyreTensorLayout(device_size, stride_map, DataFormats.SEN169_FP16)
    golden = layouts.Layout(device_size, stride_map, formats.SEN169_FP16)
    host = small_integers(*size)
    device = torch.empty(size, dtype=FP16, device="spyre", device_layout=layout)
    fill_device(device, 0x5A)
    device.copy_(host)
    assert device.device_tensor_layout() == layout
    assert torch.equal(device.cpu(), host)
    expected = golden.empty_device(fill_byte=0x5A)
    layouts.write(expected, formats.store(host), golden, host.stride())
    np.testing.assert_array_equal(device_codes(device, golden), expected)
    assert torch.equal(host.to("spyre", device_layout=layout).cpu(), host)


def arranged(name: str, size: list[int], dtype: torch.dtype):
    """The default layout in another arrangement: the card's, and the golden model's."""
    layout = SpyreTensorLayout(size, dtype)
    layout = layout.with_element_arrangement(getattr(ElementArrangement, name))
    golden = layouts.default_layout(size, dtype)
    return layout, layouts.Layout(golden.device_size, golden.stride_map, golden.format, name)


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [("DL16_TO_FP32", [3, 128], torch.float32), ("FP32_TO_DL16", [3, 128], FP16)]
    + [("DL16_TO_FP32", [2, 5, 64], torch.float32), ("FP32_TO_DL16", [192], torch.bfloat16)],
)
def test_staggered_sticks_are_written_and_read_in_their_own_order(name, size, dtype):
    layout, golden = arranged(name, size, dtype)
    host = small_integers(*size).remainder(128).to(dtype)
    device = torch.empty(size, dtype=dtype, device="spyre", device_layout=layout).copy_(host)
    expected = golden.empty_device()
    layouts.write(expected, formats.store(host), golden, host.stride())
    np.testing.assert_array_equal(device_codes(device, golden), expected)
    assert torch.equal(device.cpu(), host)
    assert torch.equal(device[..., 3:50:2].cpu(), host[..., 3:50:2])


def test_column_70_of_a_widened_tensor_is_in_stick_3_slot_2():
    layout, golden = arranged("DL16_TO_FP32", [128], torch.float32)
    host = torch.zeros(128)
    host[70] = 1.0
    device = host.to("spyre", device_layout=layout)
    assert device_codes(device, golden).nonzero()[0].tolist() == [3 * 32 + 2]


# --- Changing layouts -----------------------------------------------------------------------------


def test_moving_a_card_tensor_to_another_layout_returns_the_new_tensor():
    host = small_integers(67, 100)
    stick_on_rows = SpyreTensorLayout([67, 100], [100, 1], FP16, [1, 0])
    device = host.to("spyre")
    moved = device.to(device_layout=stick_on_rows)
    assert moved.device_tensor_layout() == stick_on_rows
    assert (moved.shape, moved.stride()) == (host.shape, host.stride())
    assert torch.equal(moved.cpu(), host)
    assert device.device_tensor_layout() == SpyreTensorLayout([67, 100], FP16)


def test_to_with_the_same_layout_returns_self_unless_copy():
    device = small_integers(4, 8).to("spyre")
    same = device.device_tensor_layout()
    assert device.to(device_layout=same) is device
    copied = device.to(device_layout=same, copy=True)
    assert copied.data_ptr() != device.data_ptr()
    assert torch.equal(copied.cpu(), device.cpu())


def test_dtype_argument_next_to_a_layout_is_used():
    layout = SpyreTensorLayout([3, 70], FP16)
    host = torch.arange(210.0).reshape(3, 70)
    for moved in (
        host.to("spyre", torch.float16, device_layout=layout),
        host.to("spyre", dtype=torch.float16, device_layout=layout),
        host.to(torch.float16, device_layout=layout),
    ):
        assert (moved.dtype, moved.device_tensor_layout()) == (torch.float16, layout)
        assert torch.equal(moved.cpu(), host.half())


def test_new_tensors_like_a_custom_one_have_the_default_layout():
    layout = SpyreTensorLayout([4, 8], [8, 1], FP16, [1, 0])
    custom = small_integers(4, 8).to("spyre", device_layout=layout)
    default = SpyreTensorLayout([4, 8], FP16)
    assert torch.empty_like(custom).device_tensor_layout() == default
    assert custom.clone().device_tensor_layout() == default
    assert torch.equal(custom.clone().cpu(), custom.cpu())
    assert custom.detach().device_tensor_layout() == layout


@pytest.mark.parametrize(
    ("size", "new_size"),
    [
        ([8], [32]),
        ([4, 8], [8, 4]),
        ([130, 3], [3, 65]),
        ([2, 70], [70]),
        ([5], [5]),
        ([6], [2, 100]),
    ],
)
def test_resize_preserves_elements_in_flat_order(size, new_size):
    device = small_integers(*size).to("spyre")
    host = small_integers(*size)
    kept = min(host.numel(), int(np.prod(new_size)))
    assert device.resize_(new_size) is device
    host.resize_(new_size)
    if np.prod(new_size) >= np.prod(size):
        assert device.device_tensor_layout() == SpyreTensorLayout(new_size, FP16)
    assert torch.equal(device.cpu().flatten()[:kept], host.flatten()[:kept])


def test_shrinking_resize_preserves_the_storage():
    device, host = small_integers(130, 3).to("spyre"), small_integers(130, 3)
    address = device.data_ptr()
    for tensor in (device, host):
        tensor.resize_(7).resize_(130, 3)
    assert device.data_ptr() == address
    assert torch.equal(device.cpu(), host)


def test_a_linear_layer_has_its_output_features_in_the_sticks():
    model = torch.nn.Linear(64, 128).half()
    weight = model.weight.detach().clone()
    assert model.to("spyre") is model
    assert model.weight.device_tensor_layout().device_size == [2, 64, 64]
    assert model.bias.device_tensor_layout() == SpyreTensorLayout([128], FP16)
    expected = formats.load(formats.store(weight), FP16)
    assert torch.equal(model.weight.detach().cpu(), expected)
    place = model.weight.data_ptr()
    model.to("spyre")
    assert model.weight.data_ptr() == place


# --- The low-level functions ----------------------------------------------------------------------


def test_empty_with_layout_is_contiguous():
    layout = SpyreTensorLayout([4, 70], [70, 1], FP16, [1, 0])
    tensor = _C.empty_with_layout([4, 70], layout, FP16, torch.device("spyre"), False, None)
    assert (tensor.shape, tensor.stride()) == ((4, 70), (70, 1))
    assert _C.get_spyre_tensor_layout(tensor) == layout


def test_as_strided_with_layout_shows_the_same_memory_through_another_layout():
    host = small_integers(2, 64)
    flat_layout = SpyreTensorLayout([128], FP16)
    flat = _C.as_strided_with_layout(host.to("spyre"), [128], [1], None, flat_layout)
    assert flat.device_tensor_layout() == flat_layout
    assert torch.equal(flat.cpu(), host.flatten())


def test_reinterpret_adds_its_offset_and_preserves_the_layout():
    base = small_integers(6, 70).to("spyre")
    view = _C.reinterpret_tensor(base[1:], [2, 70], [70, 1], 70)
    assert view.storage_offset() == 140
    assert view.device_tensor_layout() == base.device_tensor_layout()
    assert torch.equal(view.cpu(), small_integers(6, 70)[2:4])


def test_reinterpret_with_layout_shows_the_same_memory_through_another_layout():
    base = small_integers(2, 64).to("spyre")
    layout = SpyreTensorLayout([64, 2], [2, 1], FP16, [1, 0])
    view = _C.reinterpret_tensor_with_layout(base, [64, 2], [2, 1], 0, layout)
    assert view.device_tensor_layout() == layout
    assert torch.equal(view.cpu(), small_integers(2, 64).t())


def test_set_layout_replaces_the_label():
    tensor = small_integers(128).to("spyre")
    layout = SpyreTensorLayout([2, 1, 64], [64, -1, 1], DataFormats.SEN169_FP16)
    _C.set_spyre_tensor_layout(tensor, layout)
    assert tensor.device_tensor_layout() == layout
    assert torch.equal(tensor.cpu(), small_integers(128))


def test_copy_tensor_in_both_directions():
    host, back = small_integers(5, 70), torch.zeros(5, 70, dtype=FP16)
    device = torch.empty(5, 70, dtype=FP16, device="spyre")
    _C.copy_tensor(host, device)
    _C.copy_tensor(device, back, non_blocking=False)
    assert torch.equal(back, host)
