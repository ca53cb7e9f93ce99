"""Printing of card tensors, conversion to host values, and pinned memory."""

import os

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from torch_spyre import _C
from torch_spyre.errors import HostAccessError

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

FP16, NAN, INF = torch.float16, float("nan"), float("inf")


def card(values, dtype=None):
    return torch.tensor(values, dtype=dtype).to("spyre")


# --- Text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype", "text"),
    [
        ([1, 2], FP16, "tensor([1., 2.], dtype=torch.float16, device='spyre:0')"),
        ([1.5, -2], None, "tensor([ 1.5000, -2.0000], device='spyre:0')"),
        ([1.5], torch.bfloat16, "tensor([1.5000], dtype=torch.bfloat16, device='spyre:0')"),
        ([1, -20], None, "tensor([  1, -20], device='spyre:0')"),
        ([1, 2], torch.int8, "tensor([1, 2], dtype=torch.int8, device='spyre:0')"),
        ([1, 255], torch.uint8, "tensor([  1, 255], dtype=torch.uint8, device='spyre:0')"),
        ([True, False], None, "tensor([ True, False], device='spyre:0')"),
        (3.5, None, "tensor(3.5000, device='spyre:0')"),
        (7, torch.int32, "tensor(7, dtype=torch.int32, device='spyre:0')"),
        (True, None, "tensor(True, device='spyre:0')"),
        ([], None, "tensor([], device='spyre:0')"),
        ([], FP16, "tensor([], dtype=torch.float16, device='spyre:0')"),
        ([[], []], None, "tensor([], size=(2, 0), device='spyre:0')"),
        ([NAN, INF, -INF, 1], None, "tensor([nan, inf, -inf, 1.], device='spyre:0')"),
        ([NAN, -INF], FP16, "tensor([nan, -inf], dtype=torch.float16, device='spyre:0')"),
        ([1e-8, 1e8], None, "tensor([1.0000e-08, 1.0000e+08], device='spyre:0')"),
        ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]], device='spyre:0')"),
    ],
)
def test_a_tensor_prints_as_on_the_cpu_with_its_device_last(values, dtype, text):
    tensor = card(values, dtype)
    assert repr(tensor) == str(tensor) == text


def test_views_print_their_elements():
    tensor = card([[1.0, 2], [3, 4]])
    assert repr(tensor.t()[1]) == "tensor([2., 4.], device='spyre:0')"
    assert repr(tensor[0, 0].expand(3)) == "tensor([1., 1., 1.], device='spyre:0')"


def test_printing_shows_gradients_and_parameters():
    leaf = card([1.0, 2]).requires_grad_()
    assert repr(leaf) == "tensor([1., 2.], device='spyre:0', requires_grad=True)"
    made = leaf * 2
    assert repr(made) == "tensor([2., 4.], device='spyre:0', grad_fn=<MulBackward0>)"
    parameter = torch.nn.Parameter(card([1, 2], FP16))
    assert repr(parameter) == (
        "Parameter containing:\n"
        "tensor([1., 2.], dtype=torch.float16, device='spyre:0', requires_grad=True)"
    )


@pytest.mark.parametrize("size", [(2000,), (40, 40), (3, 1000), (30, 30, 30), (100, 1)])
@pytest.mark.parametrize("dtype", [FP16, torch.float32, torch.int32])
def test_any_tensor_prints_as_its_cpu_copy_but_for_the_device(size, dtype):
    tensor = torch.arange(torch.Size(size).numel()).remainder(1001).reshape(size).to(dtype)
    shown = repr(tensor.to("spyre"))
    assert "device='spyre:0'" in shown
    plain = shown.replace("device='spyre:0'", "").split()
    assert "".join(plain).replace(",)", ")") == "".join(repr(tensor).split())


def test_print_options_hold():
    tensor = card([1 / 3, 2 / 3])
    with torch._tensor_str.printoptions(precision=2):
        assert repr(tensor) == "tensor([0.33, 0.67], device='spyre:0')"
    with torch._tensor_str.printoptions(threshold=1, edgeitems=1):
        assert "..." in repr(card([1.0, 2, 3, 4]))


def test_printing_copies_once_and_computes_nothing():
    tensor = torch.rand(6, 7).to("spyre")
    before = torch.spyre.counters()
    repr(tensor)
    after = torch.spyre.counters()
    assert after["d2h_bytes"] - before["d2h_bytes"] == 6 * 7 * 4
    assert after["fallbacks"] == before["fallbacks"] and after["h2d_bytes"] == before["h2d_bytes"]


def test_storages_print_their_bytes():
    shown = repr(torch.UntypedStorage(3, device="spyre").fill_(7))
    assert shown.split()[:3] == ["7", "7", "7"] and "device=spyre:0" in shown
    host = torch.tensor([1.5, 2.0, -3.0])
    before = _C.counters()["d2h_bytes"]
    shown = str(host.to("spyre").untyped_storage()).split()
    assert _C.counters()["d2h_bytes"] - before == host.nbytes
    assert shown[:128] == [str(byte) for byte in host.untyped_storage().tolist()] + ["0"] * 116


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("dtype", [torch.float32, FP16, torch.int64, torch.bool, torch.uint8])
def test_typed_storages_print_and_list_their_elements_and_padding(dtype):
    host = torch.tensor([1, 0, 1]).to(dtype)
    storage = host.to("spyre").storage()
    elements = [*host.tolist(), *[host[1].item()] * (len(storage) - 3)]
    assert len(elements) == storage.nbytes() // dtype.itemsize > 3
    assert storage.tolist() == elements
    assert (storage[2], storage[-1]) == (elements[2], elements[-1])
    lines = str(storage).split("\n")
    assert [line.strip() for line in lines[:-1]] == [str(value) for value in elements]
    assert f"(dtype={dtype}, device=spyre:0) of size {len(elements)}]" in lines[-1]
    for index in (len(elements), -len(elements) - 1):
        with pytest.raises(IndexError):
            storage[index]
    assert str(host.storage()).split("\n")[:-1] == [f" {value}" for value in host.tolist()]


# --- Scalars --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.5, FP16), (-2.25, torch.float32), (3, torch.int64), (-7, torch.int8), (200, torch.uint8),
     (True, torch.bool), (2.0, torch.bfloat16), (0.5, torch.float8_e4m3fn), (-300, torch.int16)],
    ids=str,
)  # fmt: skip
def test_item_returns_a_python_scalar(value, dtype):
    for tensor in (card(value, dtype), card([0, value, 0], torch.float32).to(dtype)[1]):
        assert tensor.item() == value and type(tensor.item()) is type(value)
        assert tensor.tolist() == value and float(tensor) == float(value)
        assert int(tensor) == int(value) and bool(tensor) is bool(value)


def test_single_element_tensors_convert_to_scalars():
    three = card(3)
    assert [10, 20, 30, 40][three] == 40 and range(5)[three] == 3
    assert f"{card(1.25):.1f}" == "1.2" and f"{card(2):>4d}" == "   2" and f"{card(True)}" == "True"
    assert round(card(2.6).item()) == 3 and complex(card(1.5)) == 1.5
    assert (card([[5.0]]) == 5).item() is True
    assert 2 in card([1, 2]) and 7 not in card([1, 2])
    assert hash(three) == id(three)


def test_tensors_of_several_elements_do_not_convert_to_scalars():
    pair = card([1.0, 2])
    for convert in (bool, float, int, lambda t: t.item(), lambda t: [1, 2][t]):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            convert(pair)
    with pytest.raises(RuntimeError):
        card([]).item()


def test_lists_lengths_and_iteration():
    host = torch.arange(12.0).reshape(3, 4)
    tensor = host.to("spyre")
    assert tensor.tolist() == host.tolist() and tensor.t()[1:].tolist() == host.t()[1:].tolist()
    assert len(tensor) == 3 and card([]).tolist() == []
    assert [row.tolist() for row in tensor] == host.tolist()
    assert [float(v) for v in reversed(tensor[0])] == [3.0, 2.0, 1.0, 0.0]
    first, *remaining = tensor
    assert first.device.type == "spyre" and len(remaining) == 2
    with pytest.raises(TypeError, match="0-d"):
        len(card(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(card(1.0))


# --- Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.numpy(),
        np.asarray,
        np.array,
        lambda t: np.add(t, 1),
        lambda t: t.__array__(),
    ],
    ids=["numpy", "asarray", "array", "ufunc", "__array__"],
)
def test_numpy_conversion_raises_with_advice(read):
    with pytest.raises(TypeError, match=r"spyre.*cpu\(\)|cpu\(\).*spyre|Tensor\.cpu\(\)"):
        read(card([1.0, 2]))


@pytest.mark.parametrize(
    "export",
    [
        lambda t: t.__dlpack__(),
        torch.utils.dlpack.to_dlpack,
        torch.to_dlpack,
        torch.from_dlpack,
        torch.utils.dlpack.from_dlpack,
        np.from_dlpack,
        lambda t: t.__dlpack_device__(),
    ],
    ids=["__dlpack__", "utils", "torch", "from", "utils.from", "numpy", "device"],
)
def test_dlpack_raises_a_single_error_type(export):
    with pytest.raises(HostAccessError, match=r"spyre:0; copy it first with \.cpu\(\)"):
        export(card([1.0, 2]))
    assert torch.equal(torch.from_dlpack(torch.ones(3)), torch.ones(3))


def test_other_host_interfaces_are_not_there():
    tensor = card([1.0, 2])
    with pytest.raises(TypeError):
        memoryview(tensor)
    for name in ("__cuda_array_interface__", "__array_interface__"):
        with pytest.raises(AttributeError):
            getattr(tensor, name)
    assert tensor.numpy(force=True).tolist() == [1, 2]
    assert np.asarray(tensor.cpu()).tolist() == [1, 2]


def test_share_memory_is_a_no_op():
    tensor = card([1.0, 2])
    assert tensor.share_memory_() is tensor and tensor.is_shared()
    assert tensor.tolist() == [1, 2] and tensor.device.type == "spyre"
    layer = torch.nn.Linear(2, 2).to("spyre").share_memory()
    assert layer.weight.device.type == "spyre"


# --- Pinned memory --------------------------------------------------------------------------------


def test_pinned_tensors_are_cpu_tensors_and_report_is_pinned():
    plain = torch.arange(10.0)
    pinned = plain.pin_memory()
    assert pinned.device.type == "cpu" and torch.equal(pinned, plain)
    assert pinned.is_pinned() and pinned[3:].is_pinned() and not plain.is_pinned()
    assert pinned.pin_memory() is pinned and pinned.untyped_storage().is_pinned("spyre")
    assert torch.empty(5, pin_memory=True).is_pinned() and pinned.view(2, 5).t().is_pinned()
    assert not pinned.clone().is_pinned() and not card([1.0]).is_pinned()
    assert not torch.empty(0).pin_memory().untyped_storage().nbytes()
    assert torch.zeros_like(plain, pin_memory=True).is_pinned()
    assert plain.untyped_storage().pin_memory("spyre").is_pinned("spyre")


def test_only_dense_cpu_tensors_can_be_pinned():
    with pytest.raises(RuntimeError, match="dense CPU tensors|[Pp]in memory can only be on CPU"):
        card([1.0]).pin_memory()
    for make in (torch.empty, torch.zeros, torch.ones):
        with pytest.raises(RuntimeError, match="[Pp]in memory can only be on CPU|Only dense CPU"):
            make(3, device="spyre", pin_memory=True)


def test_pinned_memory_is_page_aligned_and_freed():
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = resident()
    held = [torch.ones(8 << 20).pin_memory() for _ in range(4)]  # 32 MiB each
    assert resident() > before + (96 << 20)
    assert all(t.data_ptr() % 4096 == 0 for t in held) and len({t.data_ptr() for t in held}) == 4
    held.clear()
    torch.accelerator.empty_host_cache()
    assert resident() < before + (48 << 20)


def test_pinned_memory_of_any_dtype_round_trips():
    for dtype in (torch.float64, torch.int64, torch.bool, FP16, torch.uint8):
        pinned = torch.arange(9).remainder(2).to(dtype).pin_memory()
        moved = pinned.to("spyre", dtype=torch.float32, non_blocking=True)
        torch.spyre.synchronize()
        assert moved.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_a_data_loader_pins_every_kind_of_batch():
    data = TensorDataset(torch.arange(8.0), torch.arange(8))
    for values, labels in DataLoader(data, batch_size=3, pin_memory=True):
        assert values.is_pinned() and labels.is_pinned()
        assert values.to("spyre", non_blocking=True).tolist() == labels.tolist()
    records = [{"a": torch.ones(2), "b": [torch.zeros(1), "text"]} for _ in range(4)]
    (batch,) = DataLoader(records, batch_size=4, pin_memory=True)
    assert batch["a"].is_pinned() and batch["b"][0].is_pinned() and batch["b"][1] == ("text",) * 4
