"""Tests of indirect tiles: gathers, scatters and paged memory."""

import numpy as np
import pytest
import torch
from run_texts import (
    box,
    half,
    kernel,
    load,
    numpy_type,
    run,
    shape_text,
    store,
    tensor,
    view,
    zeros,
)

from torch_spyre import knobs, ktir
from torch_spyre.errors import KtirError


def indirect(name, variables, base, subscripts, shape, types, *, points=None, order=None):
    """A line that makes the indirect tile `%name`."""
    ordered = f", variables_space_order = {order}" if order else ""
    return (
        f"%{name} = ktdp.construct_indirect_access_tile intermediate_variables({variables}) "
        f"%{base}[{subscripts}] {{variables_space_set = {points or box(*shape)}{ordered}}} "
        f": {types} -> !ktdp.access_tile<{shape_text(shape, 'index')}>"
    )


def gather(subscripts, shape, types, *, variables="%r, %c", before=(), arguments="", **options):
    """Loads from the table `%table` (32x64) with the indices `%ids`, as all of `py`."""
    loaded = options.pop("loaded", shape)
    return kernel(
        f"pt; pi; py{arguments}",
        view("table", "pt", [32, 64]),
        list(before),
        indirect("t", variables, "table", subscripts, shape, types, **options),
        f"%y = ktdp.load %t : <{shape_text(shape, 'index')}> -> {tensor(loaded)}",
        store("y", loaded),
    )


IDS = np.array([3, 30, 0, 3], np.int32)
ROWS = ("ind(%ids[%r]), (%c)", [4, 64], "memref<32x64xf16>, memref<4xi32>")


@pytest.mark.parametrize("type", ["i32", "i64"])
def test_gathering_rows(type):
    text = gather(
        ROWS[0],
        ROWS[1],
        f"memref<32x64xf16>, memref<4x{type}>",
        before=[view("ids", "pi", [4], type)],
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS.astype(numpy_type(type)), py=zeros(4, 64))["py"]
    np.testing.assert_array_equal(actual, table[IDS])


def test_a_negative_index_reports_its_location_and_the_card_stays_usable():
    text = gather(*ROWS, before=[view("ids", "pi", [4], "i32")])
    table = half(32, 64)
    bad = np.array([3, -1, 0, 3], np.int32)
    with pytest.raises(IndexError, match=r"kernel f, core 0, instruction \d+ \(ktdp.load"):
        run(text, pt=table, pi=bad, py=zeros(4, 64))
    actual = run(text, pt=table, pi=IDS, py=zeros(4, 64))["py"]
    np.testing.assert_array_equal(actual, table[IDS])


@pytest.mark.parametrize("blocking", [False, True])
def test_with_launch_blocking_the_run_raises(blocking):
    text = gather(*ROWS, before=[view("ids", "pi", [4], "i32")])
    ids = torch.tensor([3, 99, 0, 3], dtype=torch.int32).to("spyre")
    table, result = (torch.zeros(rows, 64).half().to("spyre") for rows in (32, 4))
    has_returned = False
    with knobs.override(SPYRE_LAUNCH_BLOCKING=int(blocking)), pytest.raises(IndexError):
        ktir.load(text).run("f", pt=table, pi=ids, py=result)
        has_returned = True
        torch.spyre.synchronize()
    assert has_returned != blocking


@pytest.mark.parametrize("bad", [32, 2**31 - 1])
def test_an_index_past_the_table_is_an_error(bad):
    text = gather(*ROWS, before=[view("ids", "pi", [4], "i32")])
    ids = np.array([3, 31, bad, 0], np.int32)
    with pytest.raises(IndexError, match=f"index {bad} is out of range in dimension 0 of size 32"):
        run(text, pt=half(32, 64), pi=ids, py=zeros(4, 64))


@pytest.mark.parametrize("type", ["i32", "i64"])
def test_indices_read_past_the_end_of_their_array_are_0(type):
    """As in every load: the last tile of a ragged list needs no special case."""
    text = gather(
        "ind(%ids[%r + 2]), (%c)",
        [4, 64],
        f"memref<32x64xf16>, memref<4x{type}>",
        before=[view("ids", "pi", [4], type)],
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS.astype(numpy_type(type)) + 1, py=zeros(4, 64))["py"]
    np.testing.assert_array_equal(actual, table[[1, 4, 0, 0]])


def test_direct_subscripts_need_no_parentheses_and_may_capture():
    text = gather(
        "ind(%ids[%r]), %c * 2 + %n",
        [4, 16],
        "memref<32x64xf16>, memref<4xi32>",
        before=[view("ids", "pi", [4], "i32")],
        arguments="; n",
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS, py=zeros(4, 16), n=5)["py"]
    np.testing.assert_array_equal(actual, table[IDS, 5:37:2])


def test_both_dims_through_indices():
    text = kernel(
        "pt; pi; pj; py",
        view("table", "pt", [32, 64]),
        view("ids", "pi", [4], "i32"),
        view("columns", "pj", [4, 8], "i32"),
        indirect(
            "t",
            "%r, %c",
            "table",
            "ind(%ids[%r]), ind(%columns[%r, %c])",
            [4, 8],
            "memref<32x64xf16>, memref<4xi32>, memref<4x8xi32>",
        ),
        "%y = ktdp.load %t : <4x8xindex> -> tensor<4x8xf16>",
        store("y", [4, 8]),
    )
    table = half(32, 64)
    columns = np.random.default_rng(2).integers(0, 64, (4, 8)).astype(np.int32)
    actual = run(text, pt=table, pi=IDS, pj=columns, py=zeros(4, 8))["py"]
    np.testing.assert_array_equal(actual, table[IDS[:, None], columns])


def test_a_swapped_order_transposes():
    text = gather(
        "ind(%ids[%r]), (%c)",
        [64, 2],
        "memref<32x64xf16>, memref<4xi32>",
        before=[view("ids", "pi", [4], "i32")],
        points=box(2, 64),
        order="affine_map<(r, c) -> (c, r)>",
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS, py=zeros(64, 2))["py"]
    np.testing.assert_array_equal(actual, table[IDS[:2]].T)


def test_three_variables_in_another_order():
    text = kernel(
        "pt; pi; py",
        view("table", "pt", [16, 4, 8]),
        view("ids", "pi", [2], "i64"),
        indirect(
            "t",
            "%a, %b, %c",
            "table",
            "ind(%ids[%a]), (%b), (%c)",
            [8, 2, 4],
            "memref<16x4x8xf16>, memref<2xi64>",
            points=box(2, 4, 8),
            order="affine_map<(a, b, c) -> (c, a, b)>",
        ),
        "%y = ktdp.load %t : <8x2x4xindex> -> tensor<8x2x4xf16>",
        store("y", [8, 2, 4]),
    )
    table = half(16, 4, 8)
    actual = run(text, pt=table, pi=np.array([9, 2]), py=zeros(8, 2, 4))["py"]
    np.testing.assert_array_equal(actual, table[[9, 2]].transpose(2, 0, 1))


def test_an_order_that_is_not_a_permutation_is_rejected():
    text = gather(
        *ROWS, before=[view("ids", "pi", [4], "i32")], order="affine_map<(r, c) -> (r, r)>"
    )
    with pytest.raises(KtirError, match="permutation"):
        run(text, pt=half(32, 64), pi=IDS, py=zeros(4, 64))


def test_a_triangular_space_of_variables():
    text = gather(
        "ind(%ids[%r]), (%c)",
        [4, 4],
        "memref<32x64xf16>, memref<4xi32>",
        before=[view("ids", "pi", [4], "i32")],
        points="affine_set<(r, c) : (r >= 0, -r + 3 >= 0, c >= 0, r - c >= 0)>",
        loaded=[10],
    )
    table = half(32, 64)
    rows, columns = np.tril_indices(4)
    actual = run(text, pt=table, pi=IDS, py=zeros(10))["py"]
    np.testing.assert_array_equal(actual, table[IDS[rows], columns])


def scatter(type="f16"):
    return kernel(
        "px; pi; py",
        load("x", [4, 64], type),
        view("ids", "pi", [4], "i32"),
        view("table", "py", [32, 64], type),
        indirect("t", "%r, %c", "table", *ROWS[:2], f"memref<32x64x{type}>, memref<4xi32>"),
        f"ktdp.store %x, %t : {tensor([4, 64], type)}, <4x64xindex>",
    )


@pytest.mark.parametrize("type", ["f16", "f32", "i32"])
def test_scattering_rows_preserves_the_remaining_rows(type):
    x = half(4, 64).astype(numpy_type(type))
    table = half(32, 64, seed=1, scale=9).astype(numpy_type(type))
    ids = np.array([3, 30, 0, 17], np.int32)
    expected = table.copy()
    expected[ids] = x
    np.testing.assert_array_equal(run(scatter(type), px=x, pi=ids, py=table)["py"], expected)


def test_duplicate_rows_store_the_last():
    x = half(4, 64)
    actual = run(scatter(), px=x, pi=np.array([5, 9, 5, 5], np.int32), py=zeros(32, 64))["py"]
    np.testing.assert_array_equal(actual[5], x[3])
    np.testing.assert_array_equal(actual[9], x[1])


def test_scatter_then_gather_with_a_permutation_is_the_identity():
    text = kernel(
        "px; pi; ph; py",
        load("x", [32, 64]),
        view("ids", "pi", [32], "i32"),
        view("middle", "ph", [32, 64]),
        indirect(
            "t",
            "%r, %c",
            "middle",
            "ind(%ids[%r]), (%c)",
            [32, 64],
            "memref<32x64xf16>, memref<32xi32>",
        ),
        "ktdp.store %x, %t : tensor<32x64xf16>, <32x64xindex>",
        "%y = ktdp.load %t : <32x64xindex> -> tensor<32x64xf16>",
        store("y", [32, 64]),
    )
    x = half(32, 64)
    order = np.random.default_rng(3).permutation(32).astype(np.int32)
    actual = run(text, px=x, pi=order, ph=zeros(32, 64), py=zeros(32, 64))
    np.testing.assert_array_equal(actual["py"], x)
    np.testing.assert_array_equal(actual["ph"][order], x)


def paged(stores):
    tiles = indirect(
        "t",
        "%h, %t, %d",
        "pages",
        "ind(%table[%b, %t floordiv 8]), (%h), (%t mod 8), (%d)",
        [2, 24, 16],
        "memref<10x2x8x16xf16>, memref<2x3xi32>",
    ).replace("%t = ", "%tile = ")
    whole = [2, 24, 16]
    return kernel(
        "pp; pi; py; b",
        view("pages", "pp", [10, 2, 8, 16]),
        view("table", "pi", [2, 3], "i32"),
        tiles,
        [load("y", whole), "ktdp.store %y, %tile : tensor<2x24x16xf16>, <2x24x16xindex>"]
        if stores
        else ["%y = ktdp.load %tile : <2x24x16xindex> -> tensor<2x24x16xf16>", store("y", whole)],
    )


TABLE = np.array([[7, 2, 9], [0, 4, 1]], np.int32)


@pytest.mark.parametrize("batch", [0, 1])
def test_reading_pages(batch):
    pages = half(10, 2, 8, 16)
    actual = run(paged(False), pp=pages, pi=TABLE, py=zeros(2, 24, 16), b=batch)["py"]
    expected = pages[TABLE[batch]].transpose(1, 0, 2, 3).reshape(2, 24, 16)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("batch", [0, 1])
def test_writing_pages(batch):
    y = half(2, 24, 16)
    actual = run(paged(True), pp=zeros(10, 2, 8, 16), pi=TABLE, py=y, b=batch)["pp"]
    expected = zeros(10, 2, 8, 16)
    expected[TABLE[batch]] = y.reshape(2, 3, 8, 16).transpose(1, 0, 2, 3)
    np.testing.assert_array_equal(actual, expected)


def test_a_variable_that_is_bound_outside_is_that_value():
    text = gather(
        "ind(%ids[%n]), (%c)",
        [1, 64],
        "memref<32x64xf16>, memref<4xi32>",
        variables="%n, %c",
        before=[view("ids", "pi", [4], "i32")],
        arguments="; n",
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS, py=zeros(1, 64), n=1)["py"]
    np.testing.assert_array_equal(actual, table[[30]])


def test_symbols_of_a_space_of_variables():
    points = "affine_set<(r, c)[n] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + 63 >= 0)>"
    text = gather(*ROWS, before=[view("ids", "pi", [4], "i32")], points=points)
    text = text.replace("ind(%ids[%r]), (%c)]", "ind(%ids[%r]), (%c)] symbols(%c4)")
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS, py=zeros(4, 64))["py"]
    np.testing.assert_array_equal(actual, table[IDS])


def test_indices_in_the_scratchpad():
    text = gather(
        *ROWS,
        before=[
            load("list", [4], "i32", base="pi"),
            view("ids", "c0", [4], "i32", space="ct_local"),
            f"%keep = ktdp.construct_access_tile %ids[%c0] {{access_tile_set = {box(4)}}} "
            ": memref<4xi32> -> <4xindex>",
            "ktdp.store %list, %keep : tensor<4xi32>, <4xindex>",
        ],
    )
    table = half(32, 64)
    actual = run(text, pt=table, pi=IDS, py=zeros(4, 64))["py"]
    np.testing.assert_array_equal(actual, table[IDS])
