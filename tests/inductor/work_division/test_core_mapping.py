"""Tests of the assignment of slices to cores."""

import pytest
from division_specs import C, batch_matmul, matmul, pointwise, with_splits

from torch_spyre import knobs
from torch_spyre._inductor.work_division import Digit, core_mapping, core_slices

C0, C1, C2, C3 = C[:4]


def test_the_first_symbol_varies_fastest():
    spec = with_splits(matmul(2048, 4096, 4096), {C0: 4, C1: 8})
    assert core_slices(spec, 13) == {C0: 1, C1: 3, C2: 0}
    assert core_slices(spec, 0) == {C0: 0, C1: 0, C2: 0}
    assert core_slices(spec, 1) == {C0: 1, C1: 0, C2: 0}


def test_the_start_of_a_slice_gives_the_device_offset_of_its_core():
    spec = with_splits(matmul(2048, 4096, 4096), {C0: 4, C1: 8})
    start = {
        symbol: index * spec.sizes[symbol] // spec.splits[symbol]
        for symbol, index in core_slices(spec, 13).items()
    }
    offset = 0
    for size, coordinate in zip(
        spec.output.device_size, spec.output.device_coordinates, strict=True
    ):
        offset = offset * size + int(coordinate.subs(start))
    assert offset == 3_178_496


def test_k_varies_fastest_in_a_matmul_split_along_k():
    spec = with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})
    assert core_slices(spec, 13) == {C0: 3, C1: 0, C2: 1}
    assert core_slices(spec, 0)[C0] == core_slices(spec, 1)[C0]
    assert [core_slices(spec, core)[C2] for core in range(5)] == [0, 1, 2, 3, 0]


@pytest.mark.parametrize("disabled_by", ["argument", "knob"])
def test_k_varies_slowest_if_k_fast_is_disabled(disabled_by):
    spec = with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})
    if disabled_by == "argument":
        actual = core_slices(spec, 13, k_fast=False)
    else:
        with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION="0"):
            actual = core_slices(spec, 13)
    assert actual == {C0: 5, C1: 0, C2: 1}


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (with_splits(batch_matmul(4, 64, 512, 512), {C0: 2, C1: 2, C3: 2}), C3),
        (with_splits(batch_matmul(4, 64, 512, 512), {C0: 2, C1: 2}), C0),
        (with_splits(matmul(1, 4096, 4096), {C1: 4, C2: 4}), C1),  # two symbols only
        (with_splits(pointwise("add", 8, 8, 256), {C0: 2, C2: 4}), C0),
    ],
)
def test_k_varies_fastest_only_in_matmuls_of_three_symbols_split_along_k(spec, first):
    assert core_mapping(spec).digits[0].symbol == first


def test_the_mapping_has_a_digit_per_split_symbol():
    mapping = core_mapping(with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4}))
    assert mapping.digits == (Digit(C2, 1, 4), Digit(C0, 4, 8))
    assert mapping.digit_of[C0].stride == 4
    assert C1 not in mapping.digit_of
    assert mapping.cores == 32
    assert hash(mapping) == hash(core_mapping(with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})))


@pytest.mark.parametrize("core", [-1, 8, 32])
def test_a_core_without_a_slice_is_an_error(core):
    with pytest.raises(IndexError, match=f"core {core} is out of range"):
        core_slices(with_splits(pointwise("add", 8, 64), {C0: 8}), core)
