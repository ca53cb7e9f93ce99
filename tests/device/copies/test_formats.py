"""The card's number formats, bit for bit against the golden model."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from torch_spyre import _C
from torch_spyre.testing import formats

ALL_CODES = np.arange(1 << 16, dtype=np.uint16)
DTYPES = list(formats.DEVICE_FORMATS)
HALF_DTYPES = [torch.float16, torch.bfloat16]

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support int64")


def every_host_value(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)


def device_codes(tensor: torch.Tensor) -> np.ndarray:
    """The codes of a 1-D tensor in the default layout, whose elements lie in host order."""
    code_dtype = formats.device_format(tensor.dtype).code_dtype
    raw = _C._device_bytes(tensor).numpy()
    return raw[: tensor.numel() * code_dtype.itemsize].view(code_dtype)


def tensor_of_codes(codes: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A 1-D device tensor whose memory holds exactly these codes."""
    tensor = torch.empty(len(codes), dtype=dtype, device="spyre")
    raw = _C._device_bytes(tensor)
    own = torch.from_numpy(codes.view(np.uint8).copy())
    raw[: len(own)] = own
    _C._set_device_bytes(tensor, raw)
    return tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(
        {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.itemsize]
    )


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bit for bit, except that one NaN is as good as another."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    differs = bits(actual) != bits(expected)
    if actual.dtype.is_floating_point:
        differs &= ~(actual.float().isnan() & expected.float().isnan())
    first = differs.flatten().nonzero()[:4, 0].tolist()
    assert not first, f"{int(differs.sum())} differ; the first at flat positions {first}"


def random_host(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Random bits of the dtype: for floats that means every exponent, NaN and infinity."""
    generator = torch.Generator().manual_seed(count)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    raw = torch.randint(0, 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    return raw.view(dtype)


# --- SEN169 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_every_16_bit_host_value_gets_the_code_of_the_golden_model(dtype):
    host = every_host_value(dtype)
    np.testing.assert_array_equal(device_codes(host.to("spyre")), formats.store(host))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_every_16_bit_host_value_round_trips_as_the_golden_model(dtype):
    host = every_host_value(dtype)
    assert_same_bits(host.to("spyre").cpu(), formats.load(formats.store(host), dtype))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_every_value_converts_alike_when_elements_are_not_adjacent(dtype):
    host = every_host_value(dtype)
    spread = torch.stack([host, host], dim=1)[:, 0]
    device = torch.empty(len(host), dtype=dtype, device="spyre").copy_(spread)
    np.testing.assert_array_equal(device_codes(device), formats.store(host))
    back = torch.empty(len(host), 3, dtype=dtype)[:, 1]
    back.copy_(device)
    assert_same_bits(back.contiguous(), formats.load(formats.store(host), dtype))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_every_code_decodes_as_the_golden_model(dtype):
    device = tensor_of_codes(ALL_CODES, dtype)
    np.testing.assert_array_equal(device_codes(device), ALL_CODES)
    assert_same_bits(device.cpu(), formats.sen169_to_host(ALL_CODES, dtype))


@pytest.mark.parametrize("device_dtype", HALF_DTYPES)
@pytest.mark.parametrize("host_dtype", [*HALF_DTYPES, torch.float32])
def test_every_code_reads_back_into_another_float_dtype_with_one_rounding(device_dtype, host_dtype):
    device = tensor_of_codes(ALL_CODES, device_dtype)
    host = torch.empty(len(ALL_CODES), dtype=host_dtype).copy_(device)
    assert_same_bits(host, formats.sen169_to_host(ALL_CODES, host_dtype))


def float32_sample() -> torch.Tensor:
    """Random bits, and for each code its value, the midpoint above it, and their neighbours."""
    values = formats.sen169_values()[: formats.SEN169_MAX + 1]
    exact = np.concatenate([values, (values[:-1] + values[1:]) / 2]).astype(np.float32)
    neighbours = [np.nextafter(exact, np.float32(side)) for side in (-np.inf, np.inf)]
    positive = torch.from_numpy(np.concatenate([exact, *neighbours]))
    return torch.cat([positive, -positive, random_host(torch.float32, 100_000)])


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_float32_enters_a_16_bit_tensor_with_one_rounding(dtype):
    host = float32_sample()
    device = torch.empty(len(host), dtype=dtype, device="spyre").copy_(host)
    np.testing.assert_array_equal(device_codes(device), formats.store(host, dtype))


def test_converting_while_moving_rounds_once():
    host = torch.tensor([1 + 2**-10 - 2**-20, 65519.0, 1e9, -1e-9])
    device = host.to("spyre", torch.float16)
    np.testing.assert_array_equal(device_codes(device), formats.store(host, torch.float16))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_16_bit_values_enter_a_float32_tensor_unchanged(dtype):
    host = every_host_value(dtype)
    device = torch.empty(len(host), dtype=torch.float32, device="spyre").copy_(host)
    assert_same_bits(device.cpu(), host.float())


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_bool_enters_a_16_bit_tensor_as_one_and_zero(dtype):
    device = torch.empty(4, dtype=dtype, device="spyre").copy_(torch.tensor([True, False] * 2))
    assert device_codes(device).tolist() == [0x3E00, 0] * 2


def test_bool_is_stored_as_one_and_zero():
    host = torch.tensor([True, False, True])
    device = host.to("spyre")
    assert device_codes(device).tolist() == [0x3E00, 0, 0x3E00]
    assert torch.equal(device.cpu(), host)


def test_any_code_but_zero_reads_as_true():
    read = tensor_of_codes(ALL_CODES, torch.bool).cpu()
    assert (~read).nonzero()[:, 0].tolist() == [0x0000, 0x8000]


# --- Constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, 1.0, -2.0, 3.14, 0.1, 65504.0, 1e10, -1e300, 2.3e-10, 2.34e-10, 1 + 2**-10 - 2**-40]
    + [float("inf"), float("-inf"), float("nan")],
)
def test_a_constant_is_encoded_with_one_rounding(value):
    code = _C.encode_constant(value, _C.DataFormats.SEN169_FP16)
    assert code == formats.encode_sen169(value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_half_precision_value_rounds_to_the_nearest_float8(dtype):
    """Round the value on the card: SEN169 may have rounded a float16 to a tie of float8."""
    values = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    card = values[torch.isfinite(values)].to("spyre")
    actual = card.to(torch.float8_e4m3fn).cpu().view(torch.uint8)
    expected = card.cpu().to(torch.float8_e4m3fn).view(torch.uint8)
    assert torch.equal(actual, expected)
    rounded_once = values[torch.isfinite(values)].to(torch.float8_e4m3fn).view(torch.uint8)
    assert int((actual != rounded_once).sum()) == (126 if dtype is torch.float16 else 0)


@pytest.mark.parametrize("name", ["SENINT8", "IEEE_INT32", "SEN143_FP8", "BFLOAT16"])
def test_a_constant_of_any_other_format_is_a_sen169_code(name):
    assert _C.encode_constant(0.1, getattr(_C.DataFormats, name)) == 0x3733


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1e30, float("inf")])
def test_a_float32_constant_is_its_bits(value):
    code = _C.encode_constant(value, _C.DataFormats.IEEE_FP32)
    assert code == int(np.float32(value).view(np.uint32))


# --- The dtype table ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_maps_to_the_format_of_the_golden_model(dtype):
    expected = formats.device_format(dtype)
    device_dtype = _C.get_device_dtype(dtype)
    assert device_dtype.name == expected.name
    assert device_dtype.elems_per_stick() == expected.elements_per_stick
    assert _C.get_elem_in_stick(dtype) == expected.elements_per_stick


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.qint8, "SENINT8"), (torch.quint8, "SENUINT32")]
    + [(dtype, "SENUINT2") for dtype in (torch.quint4x2, torch.quint2x4)],
)
def test_quantised_dtypes_map_to_the_format_of_their_integers(dtype, name):
    assert _C.get_device_dtype(dtype).name == name


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_record_of_a_copy_names_both_formats_of_each_dtype(dtype):
    layout = _C.SpyreTensorLayout([4, 100], dtype)
    record = _C.describe_copy([4, 100], [100, 1], dtype, layout)
    assert record["dataformat_dst_"] == _C.get_device_dtype(dtype)
    host_names = {torch.float16: "IEEE_FP16", torch.bfloat16: "BFLOAT16", torch.bool: "BOOL",
                  torch.int64: "IEEE_INT64"}  # fmt: skip
    expected = host_names.get(dtype, record["dataformat_dst_"].name)
    assert record["dataformat_src_"].name == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 31, 129, 5000])
def test_each_dtype_is_stored_and_read_as_the_golden_model(dtype, count):
    host = random_host(dtype, count)
    device = host.to("spyre")
    assert (device.dtype, device.device.type) == (dtype, "spyre")
    np.testing.assert_array_equal(device_codes(device), formats.store(host))
    assert_same_bits(device.cpu(), formats.load(formats.store(host), dtype))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2fnuz])
def test_every_fp8_code_travels_unchanged(dtype):
    host = torch.arange(256, dtype=torch.uint8).view(dtype)
    device = host.to("spyre")
    assert device_codes(device).tolist() == list(range(256))
    assert torch.equal(bits(device.cpu()), bits(host))


def test_int64_is_stored_modulo_two_to_the_32():
    host = torch.tensor([0, -1, 2**31 - 1, 2**31, 2**32 + 5, -(2**63)])
    device = host.to("spyre")
    assert device_codes(device).tolist() == [0, 0xFFFFFFFF, 2**31 - 1, 2**31, 5, 0]
    assert device.cpu().tolist() == [0, -1, 2**31 - 1, -(2**31), 5, 0]


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.complex64, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.uint16],
)
def test_dtype_without_a_device_format_raises(dtype):
    with pytest.raises(RuntimeError, match="Spyre backend does not support dtype"):
        torch.empty(4, dtype=dtype, device="spyre")


@pytest.mark.parametrize(
    ("host_dtype", "device_dtype"),
    [(torch.int8, torch.float16), (torch.float32, torch.int32), (torch.float16, torch.int64)]
    + [(torch.float16, torch.float8_e4m3fn)],
)
def test_copy_between_inconvertible_formats_is_correct_or_raises(host_dtype, device_dtype):
    host = torch.tensor([1, 2, 3]).to(host_dtype)
    device = torch.zeros(3, dtype=torch.float32).to(device_dtype).to("spyre")
    try:
        device.copy_(host)
    except RuntimeError:
        return
    assert device.cpu().float().tolist() == [1, 2, 3]


# --- The enumeration ------------------------------------------------------------------------------

# fmt: off
FORMAT_NAMES = [
    "SEN169_FP16", "IEEE_FP32", "INVALID", "SEN143_FP8", "SEN152_FP8", "SEN153_FP9", "SENINT2",
    "SENINT4", "SENINT8", "SENINT16", "SENINT24", "IEEE_INT64", "IEEE_INT32", "SENUINT32",
    "SENUINT2", "IEEE_FP16", "BOOL", "BFLOAT16", "SEN18F_FP24",
]
# fmt: on


def test_data_formats_are_numbered_in_the_published_order():
    members = list(_C.DataFormats)[:19]
    assert [member.name for member in members] == FORMAT_NAMES
    assert [int(member) for member in members] == list(range(19))
    assert [member.value for member in members] == list(range(19))


def test_formats_of_stored_dtypes_follow_the_published_ones():
    members = list(_C.DataFormats)[19:]
    names = [f"RAW{bits}" for bits in (8, 16, 32, 64, 128)]
    assert [member.name for member in members] == names
    assert [int(member) for member in members] == list(range(101, 106))


def test_data_formats_survive_pickling_and_serve_as_keys():
    for member in _C.DataFormats:
        assert pickle.loads(pickle.dumps(member)) == member
    assert len({member: None for member in _C.DataFormats}) == 24


def test_element_arrangements_have_the_published_values():
    names = ["STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2", "FP32_TO_DL16", "QFP8WT"]
    assert [int(getattr(_C.ElementArrangement, name)) for name in names] == list(range(6))


# --- The IEEE switch ------------------------------------------------------------------------------

IEEE_SCRIPT = textwrap.dedent(
    """
    import torch
    from torch_spyre import _C

    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    device = every.to("spyre")
    number = ~every.isnan()
    raw = _C._device_bytes(device)[: 2 << 16].view(torch.float16)
    for seen in (raw, device.cpu()):
        assert torch.equal(seen.view(torch.int16)[number], every.view(torch.int16)[number])
        assert seen[~number].isnan().all()

    brain = torch.tensor([1.0, 2.0**-30, 3.140625, -70000.0], dtype=torch.bfloat16)
    assert torch.equal(brain.to("spyre").cpu(), brain.half().bfloat16())

    single = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0])
    rounded = torch.empty(4, dtype=torch.float16, device="spyre").copy_(single)
    assert torch.equal(rounded.cpu(), single.half())

    flags = torch.tensor([True, False])
    stored = flags.to("spyre")
    assert _C._device_bytes(stored)[:4].view(torch.float16).tolist() == [1.0, 0.0]
    assert torch.equal(stored.cpu(), flags)
    """
)


def test_the_ieee_switch_stores_ieee_float16_instead():
    environment = {**os.environ, "SPYRE_EMU_FP16": "ieee"}
    command = [sys.executable, "-c", IEEE_SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
