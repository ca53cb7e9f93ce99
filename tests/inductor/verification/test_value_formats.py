"""Rounding of bounds agrees with the golden models of the formats."""

import numpy as np
import pytest
import torch

from torch_spyre import knobs
from torch_spyre._C import DataFormats
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.value_formats import (
    converted,
    decode,
    encode,
    nearest,
    rounded,
    value_format,
)
from torch_spyre.testing import instructions

# The names of float formats in the golden models, with whether the card computes in IEEE binary16.
FLOATS = {
    "f16": (DataFormats.SEN169_FP16, False),
    "f16_ieee": (DataFormats.SEN169_FP16, True),
    "f32": (DataFormats.IEEE_FP32, False),
    "f8E4M3FN": (DataFormats.SEN143_FP8, False),
    "f8E5M2FNUZ": (DataFormats.SEN152_FP8, False),
}
SMALL = [name for name in FLOATS if name != "f32"]


def format_named(name):
    format, is_ieee = FLOATS[name]
    with knobs.override(SPYRE_EMU_FP16="ieee" if is_ieee else "sen169"):
        return value_format(format)


def samples(name):
    """Return values of all magnitudes, on both sides of values of the format and of their ties."""
    generator = np.random.default_rng(0)
    random = generator.standard_normal(5000) * 2.0 ** generator.uniform(-40, 40, 5000)
    if name == "f32":
        return random
    values = instructions.values_of_codes(name)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[:-1] + values[1:]) / 2
    near = [values, middles, middles * (1 + 1e-12), middles * (1 - 1e-12)]
    return np.concatenate([*near, random, [0.0, -0.0, 1e30, -1e30]])


@pytest.mark.parametrize("name", SMALL)
def test_every_code_is_decoded_and_encoded(name):
    format = format_named(name)
    dtype = torch.uint8 if format.bits == 8 else torch.int16
    codes = torch.arange(1 << format.bits).to(dtype)
    values = decode(codes, format)
    assert np.array_equal(values.numpy(), instructions.values_of_codes(name), equal_nan=True)
    is_number = ~values.isnan()
    assert torch.equal(decode(encode(values[is_number], format), format), values[is_number])


@pytest.mark.parametrize("name", FLOATS)
def test_the_golden_result_is_within_the_rounded_bounds(name):
    format, exact = format_named(name), samples(name)
    golden = instructions.decode_floats(name, instructions.encode_floats(name, exact))
    bounds = rounded(Bounds.exact(torch.from_numpy(exact)), format)
    assert bool(bounds.contains(torch.from_numpy(golden)).all())


@pytest.mark.parametrize("name", FLOATS)
def test_bounds_of_a_value_between_ties_are_one_number(name):
    format = format_named(name)
    exact = samples(name)
    golden = instructions.decode_floats(name, instructions.encode_floats(name, exact))
    is_tie = np.zeros(len(exact), bool)
    if name in SMALL:
        values = instructions.values_of_codes(name)
        values = np.sort(values[np.isfinite(values)])
        middles = (values[:-1] + values[1:]) / 2
        after = np.searchsorted(middles, exact).clip(1, len(middles) - 1)
        distance = np.minimum(np.abs(exact - middles[after]), np.abs(exact - middles[after - 1]))
        is_tie = distance <= 1e-9 * np.abs(exact)
    is_ordinary = ~is_tie & (np.abs(exact) < format.largest_finite)
    bounds = rounded(Bounds.exact(torch.from_numpy(exact[is_ordinary])), format)
    assert torch.equal(bounds.low, bounds.high)
    assert torch.equal(bounds.low, torch.from_numpy(golden[is_ordinary]))


# A card has one of the two formats of 16 bits.
PAIRS = [
    (source, target)
    for source in FLOATS
    for target in FLOATS
    if {source, target} != {"f16", "f16_ieee"}
]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_conversions_agree_with_the_golden_model(source, target):
    values = instructions.decode_floats(source, instructions.encode_floats(source, samples(source)))
    golden = instructions.convert_floats(source, target, instructions.encode_floats(source, values))
    golden = torch.from_numpy(instructions.decode_floats(target, golden))
    bounds = converted(
        Bounds.exact(torch.from_numpy(values)), format_named(source), format_named(target)
    )
    assert bool(bounds.contains(golden).all())


def test_floats_are_truncated_to_integers_as_the_card_does():
    values = np.array([1.9, -1.9, 2.0**31, -(2.0**31), 1e20, np.nan, np.inf, 300.0])
    for bits, format in ((8, DataFormats.SENINT8), (32, DataFormats.IEEE_INT32)):
        codes = instructions.encode_integers(
            f"i{bits}", instructions.float_to_integer(values, bits, True)
        )
        golden = instructions.signed_integers(f"i{bits}", codes).astype(np.int64)
        source = value_format(DataFormats.IEEE_FP32)
        bounds = converted(Bounds.exact(torch.from_numpy(values)), source, value_format(format))
        assert bounds.is_exact and bounds.low.tolist() == golden.tolist()


def test_integers_wrap_to_their_width():
    format = value_format(DataFormats.SENINT8)
    exact = Bounds.exact(torch.tensor([127, 128, -129, 256]))
    assert rounded(exact, format).low.tolist() == [127, -128, 127, 0]
    interval = Bounds(torch.tensor([1, 120]), torch.tensor([2, 130]))
    result = rounded(interval, format)
    assert result.low.tolist() == [1, -128] and result.high.tolist() == [2, 127]


def test_nan_stays_nan():
    for name in FLOATS:
        bounds = rounded(
            Bounds.exact(torch.tensor([torch.nan], dtype=torch.float64)), format_named(name)
        )
        assert bool(bounds.low.isnan().all() and bounds.high.isnan().all())
        assert not bool(bounds.contains(torch.ones(1, dtype=torch.float64)).any())


def test_rounding_is_monotone():
    for name in FLOATS:
        values = torch.from_numpy(np.sort(samples(name)))
        results = nearest(values, format_named(name))
        assert bool((results[1:] >= results[:-1]).all())
