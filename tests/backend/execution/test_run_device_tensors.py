"""Tests of kernels on tensors that are on the card: bound in place, or copied on the card."""

import numpy as np
import pytest
import torch
from run_texts import half, kernel, load, store, zeros

from torch_spyre import _C, ktir
from torch_spyre.errors import KernelArgumentError

SIZES = [4, 128]
DOUBLE = kernel(
    "px; py", load("x", SIZES), "%y = arith.addf %x, %x : tensor<4x128xf16>", store("y", SIZES)
)


def on_card(array, kind="tiled"):
    """Return a float16 array on the card: in a default or row-major layout, or as a view."""
    tensor = torch.from_numpy(array).to("spyre")
    if kind == "row-major":
        layout = _C.SpyreTensorLayout([4, 2, 64], [128, 64, 1], _C.DataFormats.SEN169_FP16)
        return _C.to_with_layout(tensor, layout)
    if kind == "transposed":
        return tensor.t().contiguous().t()
    if kind == "slice":
        outer = torch.zeros(6, 200, dtype=torch.float16, device="spyre")
        outer[1:5, 3:131].copy_(tensor)
        return outer[1:5, 3:131]
    return tensor


def run_counted(text, **arguments):
    """Run a kernel; return its results, and by how much the counters grew."""
    module = ktir.load(text)
    before = torch.spyre.counters()
    results = module.run("f", **arguments)
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    return results, {key: after[key] - before[key] for key in after}


@pytest.mark.parametrize("kind", ["tiled", "row-major", "transposed", "slice"])
def test_tensors_are_written_in_place_without_the_host(kind):
    x = half(4, 128)
    inputs, outputs = on_card(x, kind), on_card(zeros(4, 128), kind)
    results, counts = run_counted(DOUBLE, px=inputs, py=outputs)
    assert results["py"].data_ptr() == outputs.data_ptr()
    assert counts["h2d_bytes"] == counts["d2h_bytes"] == counts["fallbacks"] == 0
    np.testing.assert_array_equal(outputs.cpu().numpy(), x + x)
    np.testing.assert_array_equal(inputs.cpu().numpy(), x)


def test_row_major_tensors_are_bound_without_a_copy():
    x, y = on_card(half(4, 128), "row-major"), on_card(zeros(4, 128), "row-major")
    _, counts = run_counted(DOUBLE, px=x, py=y)
    assert (counts["launches"], counts["d2d_bytes"], counts["allocations"]) == (1, 0, 0)


def test_a_slice_leaves_the_elements_around_it_alone():
    outer = torch.full((6, 200), 7, dtype=torch.float16).to("spyre")
    x = half(4, 128)
    run_counted(DOUBLE, px=on_card(x), py=outer[1:5, 3:131])
    expected = np.full((6, 200), 7, np.float16)
    expected[1:5, 3:131] = x + x
    np.testing.assert_array_equal(outer.cpu().numpy(), expected)


def test_a_view_with_the_shape_of_the_device_memory_is_bound_directly():
    tiles = [2, 4, 64]
    text = kernel(
        "px; py", load("x", tiles), "%y = arith.addf %x, %x : tensor<2x4x64xf16>", store("y", tiles)
    )
    x = half(4, 128)
    inputs, outputs = on_card(x), on_card(zeros(4, 128))
    assert _C.get_spyre_tensor_layout(inputs).device_size == tiles
    _, counts = run_counted(text, px=inputs, py=outputs)
    assert (counts["launches"], counts["d2d_bytes"]) == (1, 0)
    np.testing.assert_array_equal(outputs.cpu().numpy(), x + x)


def test_arrays_on_the_host_and_on_the_card_can_be_mixed():
    x, y = half(4, 128), on_card(zeros(4, 128))
    results, counts = run_counted(DOUBLE, px=x, py=y)
    assert counts["h2d_bytes"] == counts["d2h_bytes"] == x.nbytes
    assert isinstance(results["px"], np.ndarray) and isinstance(results["py"], torch.Tensor)
    np.testing.assert_array_equal(y.cpu().numpy(), x + x)
    results, _ = run_counted(DOUBLE, px=on_card(x), py=zeros(4, 128))
    np.testing.assert_array_equal(results["py"], x + x)


@pytest.mark.parametrize("kind", ["tiled", "row-major"])
def test_one_tensor_can_be_input_and_output(kind):
    x = half(4, 128)
    tensor = on_card(x, kind)
    run_counted(DOUBLE, px=tensor, py=tensor)
    np.testing.assert_array_equal(tensor.cpu().numpy(), x + x)


COPIES = {
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.uint8: "i8",
    torch.bool: "i1",
    torch.float32: "f32",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.float8_e4m3fn: "f8E4M3FN",
}


@pytest.mark.parametrize("dtype", COPIES)
def test_tensors_of_each_dtype_are_accessed_as_elements_of_that_dtype(dtype):
    type, sizes = COPIES[dtype], [3, 70]
    text = kernel("px; py", load("x", sizes, type), store("x", sizes, type, base="py"))
    values = torch.arange(210).reshape(3, 70) % 120
    x = (values % 2 == 0) if dtype == torch.bool else values.to(dtype)
    y = torch.zeros(3, 70).to(dtype).to("spyre")
    _, counts = run_counted(text, px=x.to("spyre"), py=y)
    assert counts["h2d_bytes"] == counts["d2h_bytes"] == 0
    assert torch.equal(y.cpu().float(), x.float())


@pytest.mark.parametrize(("dtype", "type"), [(torch.bfloat16, "f16"), (torch.int64, "i32")])
def test_tensors_are_accessed_in_the_format_of_their_memory_without_a_conversion(dtype, type):
    text = kernel("px; py", load("x", [64], type), store("x", [64], type, base="py"))
    x, y = torch.arange(64).to(dtype).to("spyre"), torch.zeros(64).to(dtype).to("spyre")
    _, counts = run_counted(text, px=x, py=y)
    assert counts["launches"] == 1
    assert torch.equal(y.cpu(), x.cpu())


def test_negative_integers_are_widened_with_their_sign():
    text = kernel("px; py", load("x", [5], "i64"), store("x", [5], "i64", base="py"))
    x, y = torch.tensor([-1, -(2**31), 5, 0, 2**31 - 1]), torch.zeros(5, dtype=torch.int64)
    y = y.to("spyre")
    run_counted(text, px=x.to("spyre"), py=y)
    assert torch.equal(y.cpu(), x)


def test_empty_tensors_are_accepted():
    text = kernel("px; py", load("x", [0, 4]), store("x", [0, 4], base="py"))
    nothing = torch.empty(0, 4, dtype=torch.float16, device="spyre")
    results, _ = run_counted(text, px=nothing, py=nothing.clone())
    assert results["py"].shape == (0, 4)


def test_autograd_sees_that_a_tensor_was_written():
    y = on_card(zeros(4, 128))
    version = y._version
    run_counted(DOUBLE, px=on_card(half(4, 128)), py=y)
    assert y._version > version


@pytest.mark.parametrize(
    ("px", "py", "match"),
    [
        ((4, 128, torch.float32), (4, 128, torch.float16), "px is a tensor of torch.float32 on"),
        ((4, 64, torch.float16), (4, 128, torch.float16), r"px has shape \(4, 64\)"),
        ((4, 128, torch.float16), (128, 4, torch.float16), r"py has shape \(128, 4\)"),
    ],
)
def test_a_tensor_of_another_dtype_or_shape_is_rejected(px, py, match):
    def make(rows, columns, dtype):
        return torch.zeros(rows, columns, dtype=dtype, device="spyre")

    with pytest.raises(KernelArgumentError, match=match):
        run_counted(DOUBLE, px=make(*px), py=make(*py))
    test_one_tensor_can_be_input_and_output("tiled")


def test_tensors_of_other_devices_and_several_cards_are_rejected():
    y = on_card(zeros(4, 128))
    with pytest.raises(KernelArgumentError, match="px is on meta"):
        run_counted(DOUBLE, px=torch.empty(4, 128, device="meta"), py=y)


def test_outputs_that_cannot_be_written_in_place_are_rejected():
    x = on_card(half(4, 128))
    leaf = on_card(zeros(4, 128)).requires_grad_()
    with pytest.raises(KernelArgumentError, match="leaf that requires grad"):
        run_counted(DOUBLE, px=x, py=leaf)
    with torch.no_grad():
        run_counted(DOUBLE, px=x, py=leaf)
    expanded = torch.zeros(1, 128, dtype=torch.float16, device="spyre").expand(4, 128)
    with pytest.raises(KernelArgumentError, match="expanded"):
        run_counted(DOUBLE, px=x, py=expanded)


def test_a_scalar_on_the_card_is_rejected_rather_than_copied():
    text = kernel(
        "px; py; s: f16",
        load("x", [64]),
        "%t = tensor.splat %s : tensor<64xf16>",
        "%y = arith.addf %x, %t : tensor<64xf16>",
        store("y", [64]),
    )
    x = torch.zeros(64, dtype=torch.float16, device="spyre")
    with pytest.raises(KernelArgumentError, match="s is a scalar, and its value is a tensor on"):
        run_counted(text, px=x, py=x.clone(), s=torch.tensor(2.0).to("spyre"))
    y = x.clone()
    run_counted(text, px=x, py=y, s=2.0)
    assert y.cpu().tolist() == [2.0] * 64
