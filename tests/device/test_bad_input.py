"""Invalid arguments raise one clear exception, change nothing, and leave the card usable."""

import pytest
import torch

from torch_spyre import _C

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")

DataFormats, Layout = _C.DataFormats, _C.SpyreTensorLayout
Arrangement = _C.ElementArrangement
FP16, DEV = torch.float16, "spyre"
HUGE = 2**62
ERRORS = (RuntimeError, ValueError, TypeError, IndexError, OverflowError)


class Tensors:
    """Fresh tensors for one case; `unchanged` returns whether the case preserved them."""

    def __init__(self):
        self.line = torch.arange(64, dtype=FP16).to(DEV)
        self.grid = torch.arange(512).remainder(97).half().reshape(4, 128).to(DEV)
        self.floats = torch.arange(8.0).to(DEV)
        self.host = torch.ones(4, 128, dtype=FP16)

    def unchanged(self):
        return (
            self.line.tolist() == list(range(64))
            and torch.equal(self.grid.cpu().flatten().int(), torch.arange(512).int().remainder(97))
            and self.floats.tolist() == list(range(8))
        )


def check_refused(case, words, errors=ERRORS):
    tensors = Tensors()
    with pytest.raises(errors, match=words) as raised:
        case(tensors)
    assert "INTERNAL ASSERT" not in str(raised.value)
    assert tensors.unchanged()
    assert torch.equal((torch.ones(3, 70).to(DEV) + 1).cpu(), torch.full((3, 70), 2.0))


# --- Dtypes, formats and devices ------------------------------------------------------------------

UNSUPPORTED = [
    "float64", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e8m0fnu", "float4_e2m1fn_x2", "uint16", "uint32", "uint64", "int4", "uint4", "bits8",
]  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_dtype_is_named_in_the_error(name):
    dtype = getattr(torch, name)
    words = rf"does not support dtype \w+ \({name}\)"
    check_refused(lambda t: torch.empty(4, dtype=dtype, device=DEV), words)
    check_refused(lambda t: torch.empty(4, dtype=dtype).to(DEV), words)
    check_refused(lambda t: t.floats.to(DEV, dtype), words)
    check_refused(lambda t: t.floats.new_empty(3, dtype=dtype), words)
    check_refused(lambda t: Layout([4, 4], dtype), words)


DEVICES = {
    "float64 module": (lambda t: torch.nn.Linear(2, 2).double().to(DEV), "float64"),
    "result in float64": (lambda t: t.floats.sum(dtype=torch.float64), "float64|Double"),
    "channels_last": (
        lambda t: torch.empty(1, 2, 3, 4, device=DEV, memory_format=torch.channels_last),
        "only supports contiguous memory format, got: ChannelsLast",
    ),
    "resize_ channels_last": (
        lambda t: t.floats.resize_(1, 2, 2, 2, memory_format=torch.channels_last),
        "only supports contiguous memory format",
    ),
    "pinned": (lambda t: torch.empty(3, device=DEV, pin_memory=True), "[Pp]in memory .* CPU"),
    "sparse": (lambda t: torch.eye(3).to_sparse().to(DEV), "spyre"),
    "sparse csr": (lambda t: torch.eye(3).to_sparse_csr().to(DEV), "spyre"),
    "sparse made": (lambda t: torch.sparse_coo_tensor([[0]], [1.0], (2,), device=DEV), "spyre"),
    "sparse empty": (lambda t: torch.empty(3, layout=torch.sparse_coo, device=DEV), "spyre"),
    "to_sparse": (lambda t: t.floats.to_sparse(), "spyre does not hold"),
    "mkldnn": (lambda t: torch.eye(3).to_mkldnn().to(DEV), "spyre"),
    "quantized": (
        lambda t: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).to(DEV), "spyre"),
    "quantize on the card": (
        lambda t: torch.quantize_per_tensor(t.floats, 0.1, 0, torch.qint8), "spyre"),
    "quantized with a layout": (
        lambda t: _C.empty_with_layout([4], Layout([4], torch.int8), dtype=torch.qint8), "qint8"),
    "view as quantized": (
        lambda t: torch.ones(4, dtype=torch.int8, device=DEV).view(torch.qint8), "qint8.*int_repr"),
    "quantized empty": (lambda t: torch.empty(4, dtype=torch.quint8, device=DEV), "spyre"),
    "no such card": (lambda t: torch.empty(1, device="spyre:3"), r"index 3 out of range \[0, 1\)"),
    "generator of no such card": (lambda t: torch.Generator(device=128), "out of range"),
    "to no such card": (lambda t: t.line.to("spyre:1"), r"index 1 out of range \[0, 1\)"),
    "no card by that name": (lambda t: t.line.to("spyre:x"), "Invalid device string"),
    "the last index": (lambda t: torch.empty(1, device="spyre:127"), "index 127 out of range"),
    "another accelerator": (lambda t: t.line.to("mps"), "mps"),
    "from meta": (lambda t: torch.empty(3, device="meta").to(DEV), "meta"),
    "copy from meta": (lambda t: t.line.copy_(torch.empty(64, device="meta")), "meta"),
    "mixed devices": (lambda t: t.floats + torch.ones(8), "same device.*spyre:0 and cpu"),
    "mixed in a list": (lambda t: torch.cat([t.floats, torch.ones(3)]), "same device"),
    "out= on the CPU": (lambda t: torch.sin(t.floats, out=torch.empty(8)), "same device"),
    "out= on the card": (lambda t: torch.sin(torch.ones(8), out=t.floats), "same device"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "words"), DEVICES.values(), ids=DEVICES)
def test_unsupported_tensor_types_and_devices_raise(case, words):
    check_refused(case, words, (*ERRORS, NotImplementedError))


def test_copy_preserves_channels_last_strides():
    host = torch.arange(24.0).reshape(1, 2, 3, 4)
    for card in (
        host.to(DEV, memory_format=torch.channels_last),
        host.to(DEV).contiguous(memory_format=torch.channels_last),
        host.contiguous(memory_format=torch.channels_last).to(DEV),
    ):
        assert card.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(card.cpu(), host)


def test_copy_to_meta_preserves_only_the_shape():
    line = Tensors().line
    assert line.to("meta").shape == torch.empty(64, dtype=FP16, device="meta").copy_(line).shape


# --- Sizes ----------------------------------------------------------------------------------------

SIZES = {
    "negative": (lambda t: torch.empty(-1, device=DEV), "negative"),
    "negative among others": (lambda t: torch.zeros(3, -2, device=DEV), "negative"),
    "overflow": (lambda t: torch.empty(HUGE, HUGE, device=DEV), "overflow"),
    "overflow with a zero": (lambda t: torch.empty(0, HUGE, HUGE, device=DEV), "overflow"),
    "negative stride": (lambda t: torch.empty_strided((2,), (-1,), device=DEV), "[Nn]egative"),
    "strides of another rank": (lambda t: torch.empty_strided((2, 3), (1,), device=DEV), "length"),
    "overflowing strides": (
        lambda t: torch.empty_strided((2, 2), (HUGE, HUGE), device=DEV), "overflow"),
    "resize_ negative": (lambda t: t.line.resize_(-1), "negative|overflow"),
    "resize_ overflow": (lambda t: t.line.resize_(HUGE, HUGE), "overflow"),
    "storage of another rank": (
        lambda t: t.line.set_(t.line.untyped_storage(), 0, (2, 2), (1,)), "stride|dim|length"),
    "set_ negative size": (
        lambda t: t.line.set_(t.line.untyped_storage(), 0, (-2,), (1,)), "negative|overflow"),
    "set_ negative stride": (
        lambda t: t.line.set_(t.line.untyped_storage(), 9, (2,), (-1,)), "[Nn]egative|overflow"),
    "set_ negative offset": (
        lambda t: t.line.set_(t.line.untyped_storage(), -1, (2,), (1,)), "offset"),
    "set_ overflowing offset": (
        lambda t: t.line.set_(t.line.untyped_storage(), 2**63 - 1, (2,), (1,)), "overflow|bounds"),
    "storage resized below nothing": (
        lambda t: t.line.untyped_storage().resize_(-1), "negative|overflow|memory"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "words"), SIZES.values(), ids=SIZES)
def test_invalid_sizes_raise(case, words):
    check_refused(case, words)


BEYOND = {
    "empty": lambda t: torch.empty(2**45, device=DEV),
    "padding": lambda t: torch.empty(2**30, 1, dtype=FP16, device=DEV),
    "to": lambda t: torch.ones(1).expand(2**45).to(DEV),
    "contiguous": lambda t: t.floats[:1].expand(2**45).contiguous(),
    "storage": lambda t: torch.UntypedStorage(HUGE, device=DEV),
    "resize_": lambda t: t.line.resize_(2**45),
    "storage resize_": lambda t: t.line.untyped_storage().resize_(2**45),
    "set_": lambda t: t.line.set_(t.line.untyped_storage(), 0, (2**45,), (1,)),
    "layout": lambda t: torch.empty(
        (4, 128), dtype=FP16, device=DEV,
        device_layout=Layout([2, 2**40, 64], [64, 128, 1], DataFormats.SEN169_FP16)),
}  # fmt: skip


@pytest.mark.parametrize("case", BEYOND.values(), ids=BEYOND)
def test_sizes_beyond_the_memory_are_out_of_memory_errors(case):
    check_refused(case, "Spyre out of memory", torch.OutOfMemoryError)


# --- Views and copies -----------------------------------------------------------------------------

VIEWS = {
    "as_strided too long": (lambda t: t.line.as_strided((65,), (1,)), "out of bounds"),
    "as_strided into padding": (lambda t: t.floats.as_strided((9,), (1,)), "out of bounds"),
    "as_strided beyond": (lambda t: t.line.as_strided((2,), (1,), 63), "out of bounds"),
    "as_strided negative stride": (lambda t: t.line.as_strided((2,), (-1,), 5), "[Nn]egative"),
    "as_strided negative offset": (lambda t: t.line.as_strided((2,), (1,), -5), "negative"),
    "as_strided negative size": (lambda t: t.line.as_strided((-1,), (1,)), "negative|overflow"),
    "as_strided other rank": (lambda t: t.line.as_strided((2, 2), (1,)), "mismatch in length"),
    "as_strided overflow": (lambda t: t.line.as_strided((2,), (2**63 - 1,)), "out of bounds|over"),
    "as_strided offset": (lambda t: t.line.as_strided((2,), (1,), 2**63 - 1), "bounds|overflow"),
    "reinterpret": (lambda t: _C.reinterpret_tensor(t.line, [64], [1], -1), "negative"),
    "view": (lambda t: t.line.view(7, -1), "invalid for input of size 64"),
    "view across strides": (lambda t: t.grid.t().view(-1), "not compatible"),
    "reshape": (lambda t: t.line.reshape(63), "invalid for input of size 64"),
    "view as another format": (lambda t: t.line.view(torch.int16), "host's bits"),
    "view as another width": (lambda t: t.floats.view(FP16), "host's bits"),
    "view as complex": (lambda t: torch.view_as_complex(t.floats.view(4, 2)), "complex"),
    "expand": (lambda t: t.line.expand(3, 65), "expanded size"),
    "narrow": (lambda t: t.line.narrow(0, 60, 10), "exceeds dimension"),
    "index": (lambda t: t.line[64], "out of bounds"),
    "index by tensor": (lambda t: t.line[torch.tensor([70])], "out of bounds"),
    # Indices are checked when the kernel runs; the error is raised when the result is read.
    "gather": (lambda t: t.floats.gather(0, torch.tensor([70]).to(DEV)).cpu(), "out of"),
    "transpose": (lambda t: t.grid.transpose(0, 2), "Dimension out of range"),
    "unfold too wide": (lambda t: t.line.unfold(0, 65, 1), "maximum size"),
    "unfold no step": (lambda t: t.line.unfold(0, 2, 0), "step is 0"),
    "copy of another shape": (lambda t: t.line.copy_(torch.ones(65)), "expanded size"),
    "copy on the card": (lambda t: t.line.copy_(t.floats), "expanded size"),
    "copy to the host": (lambda t: torch.ones(3).copy_(t.line), "expanded size"),
    "copy onto itself": (lambda t: t.line[:1].expand(4).copy_(torch.ones(4)), "more than one"),
    "fill beyond int8": (lambda t: torch.ones(2).to(DEV, torch.int8).fill_(1000), "overflow"),
    "fill of nothing beyond int8": (
        lambda t: torch.ones(0, 3).to(DEV, torch.int8).fill_(128), "overflow"),
    "fill with complex": (lambda t: t.line.fill_(1j), "overflow|complex"),
    "several to one number": (lambda t: t.line.item(), "64 elements"),
    "mm": (lambda t: torch.mm(t.grid, t.grid), "same reduction dim|cannot be multiplied"),
    "set_ from the CPU": (lambda t: t.line.set_(torch.ones(64).untyped_storage()), "cpu"),
    "set_ to a CPU tensor": (lambda t: t.line.set_(torch.ones(64, dtype=FP16)), "cpu"),
    "set_ part of the CPU": (
        lambda t: t.line.set_(torch.ones(64).untyped_storage(), 0, (2,), (1,)), "cpu"),
    "CPU set_ from the card": (lambda t: torch.ones(3).set_(t.floats.untyped_storage()), "spyre"),
    "set_ another dtype": (lambda t: t.line.set_(t.floats), "type"),
    "set_ another format": (lambda t: t.line.set_(t.floats.untyped_storage()), "host's bits"),
    "set_ part of another format": (
        lambda t: t.line.set_(t.floats.untyped_storage(), 0, (8,), (1,)), "host's bits"),
    "set_ beyond another dtype": (
        lambda t: torch.empty(0, dtype=torch.int32, device=DEV).set_(
            t.floats.untyped_storage(), 0, (1000,), (1,)), "bounds"),
    "bytes of another size": (
        lambda t: t.line.untyped_storage().copy_(torch.UntypedStorage(8)), "size"),
    "a byte beyond": (lambda t: t.line.untyped_storage()[500], "500"),
    "copy_tensor on the host": (lambda t: _C.copy_tensor(t.host, t.host), "exactly one"),
    "copy_tensor on the card": (lambda t: _C.copy_tensor(t.line, t.line), "exactly one"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "words"), VIEWS.values(), ids=VIEWS)
def test_invalid_views_and_copies_raise(case, words):
    check_refused(case, words)


# --- Layouts --------------------------------------------------------------------------------------


def grid_layout(device_size=(2, 4, 64), stride_map=(64, 128, 1), kind=DataFormats.SEN169_FP16):
    return Layout(list(device_size), list(stride_map), kind)


def grid_to(layout):
    return lambda t: t.host.to(DEV, device_layout=layout)


LAYOUTS = {
    "lengths": (lambda t: grid_layout((2, 4, 64), (64, 1)), "same, nonzero length"),
    "nothing": (lambda t: grid_layout((), ()), "nonzero length"),
    "stick": (lambda t: grid_layout((2, 4, 32)), "last size must be 64"),
    "format": (lambda t: grid_layout(kind=DataFormats.INVALID), "INVALID"),
    "negative size": (lambda t: grid_layout((-2, 4, 64)), "sizes must be >= 0"),
    "negative stride": (lambda t: grid_layout(stride_map=(-7, 128, 1)), "strides >= -1"),
    "negative host size": (lambda t: Layout([-4, 4], FP16), "negative size"),
    "dim order": (lambda t: Layout([4, 4], [4, 1], FP16, [0, 0]), "dim_order"),
    "host strides": (lambda t: Layout([4, 4], [1], FP16, [0, 1]), "mismatch in length"),
    "negative host strides": (
        lambda t: Layout([4, 4], [-4, 1], FP16, [0, 1]), "Negative strides"),
    "not a layout": (grid_to("dense"), "must be a SpyreTensorLayout, got str"),
    "empty with no layout": (
        lambda t: torch.empty(3, device=DEV, device_layout=3), "SpyreTensorLayout"),
    "another format": (
        lambda t: t.host.float().to(DEV, device_layout=grid_layout()), "IEEE_FP32.*SEN169_FP16"),
    "too small": (grid_to(Layout([2, 128], FP16)), "does not hold"),
    "empty too small": (
        lambda t: torch.empty(5, 128, dtype=FP16, device=DEV, device_layout=grid_layout()),
        "does not hold"),
    "holes": (grid_to(grid_layout(stride_map=(64, 256, 1))), "does not hold"),
    "overlap": (grid_to(grid_layout(stride_map=(64, 64, 1))), "does not hold"),
    "on the CPU": (lambda t: t.host.to("cpu", device_layout=grid_layout()), "needs a spyre device"),
    "empty on the CPU": (
        lambda t: torch.empty(4, 128, dtype=FP16, device="cpu", device_layout=grid_layout()),
        "needs a spyre device"),
    "overflow": (grid_to(grid_layout((2**40, 2**40, 64))), "overflow"),
    "layout of a CPU tensor": (lambda t: _C.get_spyre_tensor_layout(t.host), "on cpu"),
    "layout given to a CPU tensor": (
        lambda t: _C.set_spyre_tensor_layout(t.host, grid_layout()), "cpu|cannot hold"),
    "layout larger than its storage": (
        lambda t: _C.set_spyre_tensor_layout(t.line, grid_layout()), "storage has 128"),
    "view of a CPU tensor": (
        lambda t: _C.as_strided_with_layout(t.host, [4, 128], [128, 1], None, grid_layout()),
        "on cpu"),
    "view larger than its storage": (
        lambda t: _C.as_strided_with_layout(t.line, [4, 128], [128, 1], None, grid_layout()),
        "storage has 128"),
    "view before its storage": (
        lambda t: _C.as_strided_with_layout(
            t.grid, [64], [1], -64, Layout([1, 64], [64, 1], DataFormats.SEN169_FP16)),
        "negative|bounds"),
    "view beyond its storage": (
        lambda t: _C.as_strided_with_layout(
            t.grid, [64], [1], 2**63 - 1, Layout([1, 64], [64, 1], DataFormats.SEN169_FP16)),
        "bounds|overflow"),
    "negative size with layout": (
        lambda t: _C.spyre_empty_with_layout([-4], [1], FP16, grid_layout()), "negative"),
    "more sizes than strides": (
        lambda t: _C.spyre_empty_with_layout([2] * 60, [1], FP16, grid_layout()), "mismatch"),
    "more strides than sizes": (
        lambda t: _C.spyre_empty_with_layout([2], [1] * 60, FP16, grid_layout()), "mismatch"),
    "negative strides with layout": (
        lambda t: _C.spyre_empty_with_layout([4, 128], [-128, 1], FP16, grid_layout()),
        "Negative strides"),
    "overflowing strides with layout": (
        lambda t: _C.spyre_empty_with_layout([3], [HUGE], FP16, grid_layout()), "overflow"),
    "one element too far": (
        lambda t: _C.spyre_empty_with_layout([2], [2**63 - 1], FP16, grid_layout()), "overflow"),
    "a layout without room": (
        lambda t: _C.spyre_empty_with_layout([64], [1], FP16, grid_layout((0, 4, 64))), "memory"),
    "view with an overflowing offset": (
        lambda t: _C.reinterpret_tensor(t.line[1:], [1], [1], 2**63 - 1), "overflow"),
    "copy without host strides": (
        lambda t: _C.describe_copy([4, 128], [128, 1], FP16, grid_layout(), True, []), "mismatch"),
    "copy with too few strides": (
        lambda t: _C.describe_copy([4, 128], [1], FP16, grid_layout()), "mismatch"),
    "copy of a negative size": (
        lambda t: _C.describe_copy([-4, 128], [128, 1], FP16, grid_layout()), "negative size"),
    "copy with a negative stride": (
        lambda t: _C.describe_copy([4, 128], [-128, 1], FP16, grid_layout()), "Negative strides"),
    "copy with a negative host stride": (
        lambda t: _C.describe_copy([4, 128], [128, 1], FP16, grid_layout(), True, [128, -1]),
        "Negative strides"),
    "copy with a negative offset": (
        lambda t: _C.describe_copy([4, 128], [128, 1], FP16, grid_layout(), True, None, -1),
        "negative storage offset"),
    "arrangement for wider sticks": (
        lambda t: Layout([128], FP16).with_element_arrangement(Arrangement.DL16_TO_FP32),
        "sticks of 32 elements, but a stick of SEN169_FP16 has 64"),
    "arrangement for narrower sticks": (
        lambda t: Layout([128], [1], torch.float32, [0], Arrangement.FP32_TO_DL16),
        "sticks of 64 elements, but a stick of IEEE_FP32 has 32"),
    "arrangement of a given layout": (
        lambda t: Layout([1, 64], [64, 1], DataFormats.SEN169_FP16, Arrangement.DL16_TO_FP32),
        "sticks of 32 elements"),
    "arrangement with overflowing strides": (
        lambda t: _C.describe_copy([64], [2**57], FP16, Layout(
            [1, 64], [64, 2**58], DataFormats.SEN169_FP16, Arrangement.FP32_TO_DL16)),
        "overflow"),
    "arrangement with half of its sticks": (
        lambda t: torch.empty(32, device=DEV, device_layout=Layout(
            [32], [1], torch.float32, [0], Arrangement.DL16_TO_FP32)), "does not hold"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "words"), LAYOUTS.values(), ids=LAYOUTS)
def test_incompatible_layouts_raise(case, words):
    check_refused(case, words)


@pytest.mark.parametrize("left", [0, 3])
def test_reading_a_tensor_whose_storage_was_taken_away_is_an_error(left):
    tensor = torch.ones(10, device="spyre")
    tensor.untyped_storage().resize_(left)
    with pytest.raises(RuntimeError):
        tensor.cpu()


def test_stream_of_a_missing_card_cannot_become_current():
    stray = torch.Stream(stream_id=1, device_index=-1, device_type=20)
    with pytest.raises(RuntimeError, match="out of range"):
        torch.accelerator.set_stream(stray)


# --- Card indices in the extension ---------------------------------------------------------------

LOW_LEVEL_ASKS = {
    "get_properties": _C.get_properties,
    "memory_report": _C.memory_report,
    "memory_blocks": _C.memory_blocks,
    "set_memory_limit": lambda index: _C.set_memory_limit(index, 2**30),
    "reset_peak_stats": _C._spyre_reset_peak_stats,
    "allocator_stats": _C._spyre_get_allocator_stats,
    "manual_seed": lambda index: _C.manual_seed(1, index),
    "initial_seed": _C.initial_seed,
    "get_rng_state": _C.get_rng_state,
    "default_generator": _C._get_default_generator,
    "set_device": _C.set_device,
    "synchronize": _C.synchronize,
    "current_stream": _C.current_stream,
    "get_stream_from_pool": _C.get_stream_from_pool,
}


@pytest.mark.parametrize("ask", LOW_LEVEL_ASKS.values(), ids=LOW_LEVEL_ASKS)
@pytest.mark.parametrize("index", [1, 128, 255, 256, 512, 2**32, 2**40, -2, -256])
def test_the_extension_narrows_no_index_before_it_is_checked(ask, index):
    with pytest.raises(RuntimeError, match=rf"Device index {index} out of range \[0, 1\)"):
        ask(index)
