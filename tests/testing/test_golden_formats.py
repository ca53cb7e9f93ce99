"""The reference model of the number formats, compared with published values and with torch."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from torch_spyre.testing import formats

ALL_CODES = np.arange(1 << 16, dtype=np.uint16)
HALF_DTYPES = [torch.float16, torch.bfloat16]


def every_host_value(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)


def same_floats(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal bit for bit, except that one NaN is as good as another."""
    nan = left.isnan() & right.isnan()
    bits = {2: torch.int16, 4: torch.int32}[left.dtype.itemsize]
    return bool((nan | (left.view(bits) == right.view(bits))).all())


# --- SEN169 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code", "decoded"),
    [
        (1.0, 0x3E00, 1.0),
        (-2.0, 0xC000, -2.0),
        (0.5, 0x3C00, 0.5),
        (3.14, 0x4124, 3.140625),
        (0.1, 0x3733, 0.0999755859375),
        (1 + 2**-10, 0x3E01, 1.001953125),
        (1024, 0x5200, 1024),
        (1025, 0x5201, 1026),
        (2049, 0x5400, 2048),
        (2**-24, 0x0E00, 2**-24),
        (65504, 0x5E00, 65536),
        (4.6657e-10, 0x0001, 2**-31 * (1 + 1 / 512)),
        (-33_521_664, 0xEFFF, -33_521_664),
    ],
)
def test_the_worked_values_that_are_published(value, code, decoded):
    assert formats.encode_sen169(value) == code
    assert formats.decode_sen169(code) == decoded


def test_values_are_sign_times_power_of_two_times_fraction():
    values = formats.sen169_values()
    for code in [0x0001, 0x01FF, 0x0200, 0x3E01, 0x7E00, 0x7FFE, 0x8001, 0xFFFE]:
        sign, exponent, fraction = code >> 15, code >> 9 & 63, code & 511
        exact = (-1) ** sign * Fraction(2) ** (exponent - 31) * (1 + Fraction(fraction, 512))
        assert Fraction(values[code]) == exact


def test_only_the_two_all_ones_codes_are_nan_and_none_is_infinite():
    values = formats.sen169_values()
    assert np.flatnonzero(np.isnan(values)).tolist() == [0x7FFF, 0xFFFF]
    assert not np.isinf(values).any()


def test_magnitudes_ascend_with_their_codes():
    assert (np.diff(formats.sen169_values()[:0x7FFF]) > 0).all()


def test_every_code_but_the_negative_nan_encodes_back_to_itself():
    again = formats.encode_sen169_result(formats.sen169_values())
    expected = np.where(ALL_CODES == 0xFFFF, 0x7FFF, ALL_CODES)
    np.testing.assert_array_equal(again, expected)


def test_the_sign_of_zero_is_preserved():
    assert formats.encode_sen169([0.0, -0.0]).tolist() == [0x0000, 0x8000]
    assert np.signbit(formats.decode_sen169([0x0000, 0x8000])).tolist() == [False, True]


def test_ties_round_to_the_larger_magnitude():
    assert formats.encode_sen169([1 + 2**-10, -(1 + 2**-10)]).tolist() == [0x3E01, 0xBE01]
    assert formats.encode_sen169([1 + 3 * 2**-10]).tolist() == [0x3E02]


def test_values_below_a_tie_round_to_the_smaller_magnitude():
    below = np.nextafter(1 + 2**-10, 0)
    assert formats.encode_sen169([below, -below]).tolist() == [0x3E00, 0xBE00]


def test_a_carry_out_of_the_fraction_raises_the_exponent():
    assert formats.encode_sen169(2 - 2**-10) == 0x4000


def test_half_the_smallest_positive_is_the_border_to_zero():
    half = 2**-32 * (1 + 1 / 512)
    below = np.nextafter(half, 0)
    assert formats.encode_sen169([half, -half]).tolist() == [0x0001, 0x8001]
    assert formats.encode_sen169([below, -below]).tolist() == [0x0000, 0x8000]


def test_arithmetic_that_overflows_saturates():
    big = [8_573_157_377.0, 1e300, np.inf]
    assert formats.encode_sen169_result(big).tolist() == [0x7FFE] * 3
    assert formats.encode_sen169_result([-x for x in big]).tolist() == [0xFFFE] * 3


def test_conversion_of_finite_values_does_not_give_infinity():
    big = [8_564_768_768.0, 8_573_157_376.0, 1e300, np.inf]
    assert formats.encode_sen169(big).tolist() == [0x7FFD, 0x7FFD, 0x7FFD, 0x7FFE]
    assert formats.encode_sen169([-x for x in big]).tolist() == [0xFFFD, 0xFFFD, 0xFFFD, 0xFFFE]
    read = formats.sen169_to_host(formats.encode_sen169(big), torch.bfloat16)
    assert torch.isfinite(read).tolist() == [True, True, True, False]


def test_every_nan_becomes_canonical():
    assert formats.encode_sen169([np.nan, -np.nan]).tolist() == [0x7FFF, 0x7FFF]


def test_encoding_is_never_farther_off_than_a_neighbouring_code():
    generator = np.random.default_rng(0)
    values = np.ldexp(generator.uniform(1, 2, 5000), generator.integers(-31, 33, 5000))
    codes = formats.encode_sen169_result(values).astype(np.int64)
    error = np.abs(formats.decode_sen169(codes) - values)
    for neighbour in (codes - 1, np.minimum(codes + 1, formats.SEN169_MAX)):
        assert (error <= np.abs(formats.decode_sen169(neighbour) - values)).all()


def test_round_to_sen169_is_idempotent():
    once = formats.round_to_sen169(np.linspace(-70000, 70000, 4001))
    np.testing.assert_array_equal(formats.round_to_sen169(once), once)


# --- Reading back to the host ---------------------------------------------------------------------


def round_to_nearest_even(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """IEEE rounding from its definition, for dtypes with a subnormal range."""
    info = torch.finfo(dtype)
    _, exponent = np.frexp(values)
    lowest = np.log2(info.tiny)
    quantum = np.exp2(np.maximum(exponent - 1.0, lowest)) * info.eps
    rounded = np.rint(values / quantum) * quantum
    return np.where(np.abs(rounded) > info.max, np.copysign(np.inf, values), rounded)


@pytest.mark.parametrize("dtype", [*HALF_DTYPES, torch.float32])
def test_decoding_rounds_to_nearest_even_and_overflows_to_infinity(dtype):
    values = formats.sen169_values()
    expected = round_to_nearest_even(values, dtype)
    expected[[0x7FFE, 0xFFFE]] = [np.inf, -np.inf]
    read = formats.sen169_to_host(ALL_CODES, dtype)
    assert read.dtype == dtype
    np.testing.assert_array_equal(read.to(torch.float64).numpy(), expected)
    np.testing.assert_array_equal(np.signbit(read.double().numpy())[0x8000], True)


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_the_independent_rounding_used_here_is_the_cast_of_torch(dtype):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(20000, generator=generator) * 2.0 ** torch.randint(-30, 20, (20000,))
    rounded = round_to_nearest_even(values.double().numpy(), dtype)
    np.testing.assert_array_equal(values.to(dtype).double().numpy(), rounded)


def test_float16_round_trip_loses_one_fraction_bit():
    host = every_host_value(torch.float16)
    back = formats.load(formats.store(host), torch.float16)
    finite = host.isfinite() & back.isfinite()
    error = (back[finite].double() - host[finite].double()).abs()
    assert (error <= host[finite].double().abs() * 2**-10).all()
    assert same_floats(back[host.isinf()], host[host.isinf()])
    assert back[host.isnan()].isnan().all()


def test_float16_subnormals_round_trip():
    host = every_host_value(torch.float16)
    subnormal = host[(host != 0) & (host.abs() < torch.finfo(torch.float16).tiny)]
    assert len(subnormal) == 2 * 1023
    assert same_floats(formats.load(formats.store(subnormal), torch.float16), subnormal)


def test_bfloat16_within_range_round_trips():
    host = every_host_value(torch.bfloat16)
    smallest, largest = 2.0**-31 * (1 + 1 / 128), 2.0**33 - 2.0**25
    inside = host[(host.abs() >= smallest) & (host.abs() <= largest)]
    assert same_floats(formats.load(formats.store(inside), torch.bfloat16), inside)


# --- The other formats ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (torch.float8_e4m3fn, formats.e4m3fn_values()),
        (torch.float8_e5m2fnuz, formats.e5m2fnuz_values()),
    ],
)
def test_fp8_values_match_torch(dtype, values):
    torch_values = torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float64).numpy()
    np.testing.assert_array_equal(values, torch_values)
    np.testing.assert_array_equal(
        np.signbit(values[values == 0]), [False, True][: sum(values == 0)]
    )


def test_maximum_fp8_values():
    assert np.nanmax(formats.e4m3fn_values()) == 448
    assert np.nanmax(formats.e5m2fnuz_values()) == 57344


@pytest.mark.parametrize(
    ("dtype", "name", "per_stick"),
    [
        (torch.float16, "SEN169_FP16", 64),
        (torch.bfloat16, "SEN169_FP16", 64),
        (torch.bool, "SEN169_FP16", 64),
        (torch.float32, "IEEE_FP32", 32),
        (torch.int32, "IEEE_INT32", 32),
        (torch.int64, "IEEE_INT32", 32),
        (torch.int16, "SENINT16", 64),
        (torch.int8, "SENINT8", 128),
        (torch.float8_e4m3fn, "SEN143_FP8", 128),
        (torch.float8_e5m2fnuz, "SEN152_FP8", 128),
        (torch.uint8, "SENUINT32", 32),
    ],
)
def test_each_dtype_has_the_device_format_of_the_table(dtype, name, per_stick):
    device = formats.device_format(dtype)
    assert (device.name, device.elements_per_stick) == (name, per_stick)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.float8_e5m2])
def test_a_dtype_without_a_device_format_is_rejected(dtype):
    with pytest.raises(ValueError, match="has no format"):
        formats.device_format(dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_integers_round_trip(dtype):
    info = torch.iinfo(dtype)
    host = torch.tensor([[info.min, info.max, 0], [1, 2, info.max - 1]], dtype=dtype)
    assert torch.equal(formats.load(formats.store(host), dtype), host)


def test_int64_wraps_modulo_two_to_the_32():
    host = torch.tensor([-1, 2**31, 2**32 + 5, -(2**63)])
    assert formats.store(host).tolist() == [0xFFFFFFFF, 0x80000000, 5, 0]
    assert formats.load(formats.store(host), torch.int64).tolist() == [-1, -(2**31), 5, 0]


def test_a_byte_fills_the_low_end_of_a_32_bit_slot():
    codes = formats.store(torch.tensor([0, 200, 255], dtype=torch.uint8))
    assert (codes.dtype, codes.tolist()) == (np.uint32, [0, 200, 255])


def test_booleans_are_one_and_zero_in_sen169():
    host = torch.tensor([True, False])
    assert formats.store(host).tolist() == [0x3E00, 0x0000]
    assert formats.load(formats.store(host), torch.bool).tolist() == [True, False]


def test_float32_bits_are_preserved():
    bits = torch.tensor([0x7FC00001, 0x7F800000, 1, -(2**31)], dtype=torch.int32)
    codes = formats.store(bits.view(torch.float32))
    assert codes.view(np.int32).tolist() == bits.tolist()


@pytest.mark.parametrize("dtype", list(formats.DEVICE_FORMATS))
def test_scalars_and_empty_tensors_preserve_their_shape(dtype):
    for shape in [(), (0,), (2, 0), (2, 3)]:
        host = torch.zeros(shape).to(dtype)
        codes = formats.store(host)
        assert codes.shape == shape
        assert codes.dtype == formats.device_format(dtype).code_dtype
        back = formats.load(codes, dtype)
        assert (back.dtype, tuple(back.shape)) == (dtype, shape)


def test_float32_into_a_float16_tensor_rounds_once():
    # Rounding to float16 first would make this a tie and lift it by a whole code.
    value = 1 + 2**-10 - 2**-20
    assert torch.tensor([value]).half().item() == 1 + 2**-10
    assert formats.store(torch.tensor([value]), torch.float16).tolist() == [0x3E00]


def test_a_copy_that_would_change_integers_is_rejected():
    with pytest.raises(ValueError, match="does not convert"):
        formats.store(torch.ones(3), torch.int32)


# --- Comparing ------------------------------------------------------------------------------------


def test_one_ulp_is_the_gap_between_neighbouring_codes():
    smallest = 2**-31 * (1 + 1 / 512)
    values = [1.0, -1.0, 1.999, 2.0, 0.0, smallest / 3, smallest, 8_573_157_376, 1e30]
    gaps = [2**-9, 2**-9, 2**-9, 2**-8, smallest, smallest, 2**-40, 2**23, 2**23]
    assert formats.sen169_ulp(values).tolist() == gaps
    assert np.isnan(formats.sen169_ulp(np.nan))


@pytest.mark.parametrize("dtype", [*HALF_DTYPES, torch.float32])
def test_stored_values_are_within_half_an_ulp(dtype):
    exact = np.ldexp(np.random.default_rng(1).uniform(-2, 2, 3000), np.arange(3000) % 80 - 40)
    stored = formats.sen169_to_host(formats.encode_sen169_result(exact), dtype)
    formats.assert_close_sen169(stored, exact, max_ulps=0.5)


def test_saturated_values_and_nan_compare_close():
    exact = torch.tensor([1e30, -np.inf, np.nan, 70000.0], dtype=torch.float64)
    formats.assert_close_sen169(torch.tensor([np.inf, -np.inf, np.nan, 69888.0]), exact, 1)
    formats.assert_close_sen169(exact.half(), exact, 1)


@pytest.mark.parametrize(("actual", "expected"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, 4e9)])
def test_a_special_value_on_one_side_only_is_not_close(actual, expected):
    with pytest.raises(AssertionError, match="1 of 1 elements"):
        formats.assert_close_sen169(torch.tensor([actual]), [expected], 100)


def test_the_message_has_the_index_and_the_ulps():
    actual = torch.tensor([[1.0, 2.0], [3.0, 1.0 + 3 * 2**-9]])
    expected = [[1.0, 2.0], [3.0, 1.0]]
    formats.assert_close_sen169(actual, expected, max_ulps=3)
    with pytest.raises(AssertionError) as failure:
        formats.assert_close_sen169(actual, expected, max_ulps=2)
    assert str(failure.value) == (
        "1 of 4 elements differ by more than 2 ulps; the worst at (1, 1): "
        "got 1.005859375 (code 0x3e03), expected 1 (code 0x3e00), 3 ulps away"
    )


def test_mismatched_shapes_are_rejected():
    with pytest.raises(AssertionError, match="shape"):
        formats.assert_close_sen169(torch.ones(2), [1.0], 1)
