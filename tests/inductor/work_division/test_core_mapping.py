"""Which core has which slice."""

import pytest
from division_specs import C, batch_matmul, matmul, pointwise, with_splits

from torch_spyre import knobs
from torch_spyre._inductor.work_division import Digit, core_mapping, core_slices

C0, C1, C2, C3 = C[:4]


def test_the_first_symbol_changes_from_core_to_core():
    spec = with_splits(matmul(2048, 4096, 4096), {C0: 4, C1: 8})
    assert core_slices(spec, 13) == {C0: 1, C1: 3, C2: 0}
    assert core_slices(spec, 0) == {C0: 0, C1: 0, C2: 0}
    assert core_slices(spec, 1) == {C0: 1, C1: 0, C2: 0}


def test_a_slice_begins_where_its_core_starts_in_device_memory():
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


def test_cores_that_share_the_inner_dim_of_a_product_are_neighbours():
    spec = with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})
    assert core_slices(spec, 13) == {C0: 3, C1: 0, C2: 1}
    assert core_slices(spec, 0)[C0] == core_slices(spec, 1)[C0]
    assert [core_slices(spec, core)[C2] for core in range(5)] == [0, 1, 2, 3, 0]


@pytest.mark.parametrize("off", ["argument", "knob"])
def test_the_inner_dim_comes_last_where_it_is_not_wanted_first(off):
    spec = with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})
    if off == "argument":
        found = core_slices(spec, 13, k_fast=False)
    else:
        with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION="0"):
            found = core_slices(spec, 13)
    assert found == {C0: 5, C1: 0, C2: 1}


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (with_splits(batch_matmul(4, 64, 512, 512), {C0: 2, C1: 2, C3: 2}), C3),
        (with_splits(batch_matmul(4, 64, 512, 512), {C0: 2, C1: 2}), C0),
        (with_splits(matmul(1, 4096, 4096), {C1: 4, C2: 4}), C1),  # two symbols only
        (with_splits(pointwise("add", 8, 8, 256), {C0: 2, C2: 4}), C0),
    ],
)
def test_only_products_of_three_symbols_with_a_split_inner_dim_begin_with_it(spec, first):
    assert core_mapping(spec).digits[0].symbol == first


def test_the_mapping_shows_its_arithmetic():
    mapping = core_mapping(with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4}))
    assert mapping.digits == (Digit(C2, 1, 4), Digit(C0, 4, 8))
    assert mapping.digit_of[C0].stride == 4
    assert C1 not in mapping.digit_of
    assert mapping.cores == 32
    assert hash(mapping) == hash(core_mapping(with_splits(matmul(256, 8192, 192), {C0: 8, C2: 4})))


@pytest.mark.parametrize("core", [-1, 8, 32])
def test_a_core_that_has_no_slice_is_an_error(core):
    with pytest.raises(IndexError, match=f"core {core} of 8"):
        core_slices(with_splits(pointwise("add", 8, 64), {C0: 8}), core)
