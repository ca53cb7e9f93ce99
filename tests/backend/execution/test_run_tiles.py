"""Tests of loads and stores of access tiles."""

import numpy as np
import pytest
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
    tile,
    view,
    zeros,
)

from torch_spyre import ktir
from torch_spyre.errors import KtirError


def copy_tile(sizes, at, shape, **options):
    """Loads one tile of `px` and stores it as all of `py`."""
    loaded = options.pop("loaded", shape)
    return kernel(
        options.pop("arguments", "px; py"),
        options.pop("before", []),
        view("v", "px", sizes, strides=options.pop("strides", None)),
        tile("t", "v", at, sizes, shape, **options),
        f"%y = ktdp.load %t : <{shape_text(shape, 'index')}> -> {tensor(loaded)}",
        store("y", loaded),
    )


@pytest.mark.parametrize("type", ["f16", "f32", "i1", "i8", "i16", "i32", "i64", "index"])
def test_every_type_moves_bit_by_bit(type):
    bits = np.random.default_rng(1).integers(0, 256, 64 * 8, np.uint8)
    x = bits.view(numpy_type(type))[:64] if type not in ("i1", "f16") else None
    if type == "i1":
        x = bits[:64] > 100
    if type == "f16":
        x = half(64)
    text = kernel("px; py", load("x", [64], type), store("x", [64], type, base="py"))
    actual = run(text, px=x, py=np.zeros_like(x))["py"]
    assert actual.tobytes() == x.tobytes()


def test_a_tile_past_the_end_of_the_array_reads_zeros_there():
    x = half(4, 64)
    actual = run(copy_tile([4, 64], ["%c2", "%c0"], [4, 64]), px=x, py=np.ones((4, 64), np.float16))
    np.testing.assert_array_equal(actual["py"], np.vstack([x[2:], zeros(2, 64)]))


def test_store_past_the_end_of_an_array_is_dropped():
    x = half(4, 64)
    text = kernel(
        "px; py",
        load("x", [4, 64]),
        view("v", "py", [4, 64]),
        tile("t", "v", ["%c3", "%c0"], [4, 64], [4, 64]),
        "ktdp.store %x, %t : tensor<4x64xf16>, <4x64xindex>",
    )
    actual = run(text, px=x, py=np.ones((4, 64), np.float16))["py"]
    np.testing.assert_array_equal(actual, np.vstack([np.ones((3, 64)), x[:1]]))


def test_outside_the_view_but_inside_the_array_are_the_neighbours():
    x = half(4, 64)
    actual = run(copy_tile([4, 64], ["%c0", "%c4"], [2, 64]), px=x, py=zeros(2, 64))["py"]
    np.testing.assert_array_equal(actual, x.ravel()[4:132].reshape(2, 64))


def test_index_expressions_are_computed():
    x = half(16, 64)
    at = ["%c2 * 4 + %c3 - 1", "(%c4 + %c3) floordiv 2 + 7 mod 4"]
    actual = run(copy_tile([16, 64], at, [2, 8]), px=x, py=zeros(2, 8))["py"]
    np.testing.assert_array_equal(actual, x[10:12, 6:14])


def test_an_explicit_base_map():
    x = half(16, 64)
    text = copy_tile([16, 64], ["%c2", "%c3"], [2, 8])
    text = text.replace(
        "access_tile_set =", "base_map = affine_map<(a, b) -> (a * 2 + b, b)>, access_tile_set ="
    )
    actual = run(text, px=x, py=zeros(2, 8))["py"]
    np.testing.assert_array_equal(actual, x[7:9, 3:11])


def test_a_set_that_does_not_begin_at_the_anchor():
    x = half(16, 64)
    text = copy_tile([16, 64], ["%c1", "%c0"], [2, 8], points=box(2, 8, lower=[3, 5]))
    np.testing.assert_array_equal(run(text, px=x, py=zeros(2, 8))["py"], x[4:6, 5:13])


def test_a_column_major_view():
    x = half(8, 4)
    text = copy_tile([4, 8], ["%c0", "%c0"], [4, 8], strides=[1, 4])
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, 8))["py"], x.T)


def test_a_view_of_stride_0_repeats():
    text = copy_tile([4, 8], ["%c0", "%c0"], [4, 8], strides=[0, 1])
    x = half(8)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, 8))["py"], np.tile(x, (4, 1)))


@pytest.mark.parametrize("order", ["(a, b, c)", "(c, a, b)", "(b, a, c)", "(c, b, a)", "(b, c, a)"])
@pytest.mark.parametrize("stores", [False, True])
def test_an_order_is_how_the_tile_is_walked(order, stores):
    dims = [name.strip() for name in order.strip("()").split(",")]
    axes = ["abc".index(name) for name in dims]
    x = half(2, 3, 8)
    turned = x.transpose(axes)
    text = kernel(
        "px; py",
        view("v", "px", [2, 3, 8]),
        tile(
            "t",
            "v",
            ["%c0"] * 3,
            [2, 3, 8],
            turned.shape,
            points=box(2, 3, 8),
            order=f"affine_map<(a, b, c) -> {order}>",
        ),
        [
            load("y", turned.shape),
            f"ktdp.store %y, %t : {tensor(turned.shape)}, <{shape_text(turned.shape, 'index')}>",
        ]
        if stores
        else [
            f"%y = ktdp.load %t : <{shape_text(turned.shape, 'index')}> -> {tensor(turned.shape)}",
            store("y", turned.shape),
        ],
    )
    if stores:
        actual = run(text, px=zeros(2, 3, 8), py=np.ascontiguousarray(turned))["px"]
        np.testing.assert_array_equal(actual, x)
    else:
        actual = run(text, px=x, py=np.zeros_like(turned, order="C"))["py"]
        np.testing.assert_array_equal(actual, turned)


def test_an_order_that_is_not_a_permutation_is_rejected():
    text = copy_tile([4, 4], ["%c0", "%c0"], [4, 4], order="affine_map<(a, b) -> (a, a)>")
    with pytest.raises(KtirError, match="permutation"):
        run(text, px=zeros(4, 4), py=zeros(4, 4))


TRIANGLE = "affine_set<(i, j) : (i >= 0, -i + 3 >= 0, j >= 0, i - j >= 0)>"


def test_a_triangle_loads_as_a_list():
    x = half(4, 4)
    text = copy_tile([4, 4], ["%c0", "%c0"], [4, 4], points=TRIANGLE, loaded=[10])
    np.testing.assert_array_equal(run(text, px=x, py=zeros(10))["py"], x[np.tril_indices(4)])


def test_a_triangle_walked_by_columns():
    x = half(4, 4)
    text = copy_tile(
        [4, 4],
        ["%c0", "%c0"],
        [4, 4],
        points=TRIANGLE,
        loaded=[10],
        order="affine_map<(i, j) -> (j, i)>",
    )
    columns, rows = np.triu_indices(4)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(10))["py"], x[rows, columns])


def test_store_of_a_triangle_preserves_other_elements():
    text = kernel(
        "px; py",
        load("x", [10]),
        view("v", "py", [4, 4]),
        tile("t", "v", ["%c0", "%c0"], [4, 4], [4, 4], points=TRIANGLE),
        "ktdp.store %x, %t : tensor<10xf16>, <4x4xindex>",
    )
    x, before = half(10), half(4, 4, seed=1)
    expected = before.copy()
    expected[np.tril_indices(4)] = x
    np.testing.assert_array_equal(run(text, px=x, py=before)["py"], expected)


def test_every_other_column():
    even = "affine_set<(i, j) : (i >= 0, -i + 1 >= 0, j >= 0, -j + 7 >= 0, j mod 2 == 0)>"
    x = half(2, 8)
    text = copy_tile([2, 8], ["%c0", "%c0"], [2, 4], points=even)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(2, 4))["py"], x[:, ::2])


SYMBOLIC = "affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0)>"


def test_a_symbolic_set_bound_to_a_constant():
    x = half(16)
    text = copy_tile([16], ["%c2"], [4], points=SYMBOLIC, symbols="%c4")
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4))["py"], x[2:6])


@pytest.mark.parametrize("count", [0, 1, 5, 16])
def test_a_symbolic_set_bound_to_an_argument(count):
    text = kernel(
        "px; py; n",
        view("v", "px", [16]),
        view("w", "py", [16]),
        f"%t = ktdp.construct_access_tile %v[%c0] symbols(%n) {{access_tile_set = {SYMBOLIC}}} "
        ": memref<16xf16> -> !ktdp.access_tile<?xindex>",
        f"%u = ktdp.construct_access_tile %w[%c0] symbols(%n) {{access_tile_set = {SYMBOLIC}}} "
        ": memref<16xf16> -> !ktdp.access_tile<?xindex>",
        "%x = ktdp.load %t : <?xindex> -> tensor<?xf16>",
        "%y = arith.addf %x, %x : tensor<?xf16>",
        "ktdp.store %y, %u : tensor<?xf16>, <?xindex>",
    )
    x = half(16)
    expected = np.where(np.arange(16) < count, 2 * x, 7)
    actual = run(text, px=x, py=np.full(16, 7, np.float16), n=count)["py"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("i floordiv 4 == 0", range(4)),
        ("(i + n) floordiv 4 - 3 >= 0", range(2, 10)),
        ("i ceildiv 4 <= 1", range(5)),
        ("n - 11 >= 0", ()),
        ("n - 9 >= 0", range(10)),
        ("n == 9", ()),
        ("n <= 10", range(10)),
    ],
)
def test_no_constraint_of_a_symbolic_set_is_passed_over(constraint, expected):
    points = f"affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0, {constraint})>"
    text = kernel(
        "px; py; m",
        "%c16 = arith.constant 16 : index",
        # With a bound the kernel needs not be compiled for this one size.
        "%n = arith.minsi %m, %c16 : index",
        view("v", "px", [16]),
        view("w", "py", [16]),
        tile("t", "v", ["%c0"], [16], ["?"], points=points, symbols="%n"),
        tile("u", "w", ["%c0"], [16], ["?"], points=points, symbols="%n"),
        "%x = ktdp.load %t : <?xindex> -> tensor<?xf16>",
        "ktdp.store %x, %u : tensor<?xf16>, <?xindex>",
    )
    x = half(16)
    kept = np.where(np.isin(np.arange(16), list(expected)), x, 0)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(16), m=10)["py"], kept)


def test_a_symbolic_triangle():
    lower = "affine_set<(i, j)[n] : (i >= 0, -i + n - 1 >= 0, j >= 0, i - j >= 0)>"
    text = kernel(
        "px; py; n",
        view("v", "px", [4, 4]),
        f"%t = ktdp.construct_access_tile %v[%c0, %c0] symbols(%n) {{access_tile_set = {lower}}} "
        ": memref<4x4xf16> -> !ktdp.access_tile<4x4xindex>",
        "%y = ktdp.load %t : <4x4xindex> -> tensor<6xf16>",
        store("y", [6]),
    )
    x = half(4, 4)
    actual = run(text, px=x, py=zeros(6), n=3)["py"]
    np.testing.assert_array_equal(actual, x[np.tril_indices(3)])


def test_a_rank_0_view_and_tile():
    text = kernel(
        "px; py",
        "%v = ktdp.construct_memory_view %px, sizes: [], strides: [] "
        "{coordinate_set = affine_set<() : ()>, memory_space = #ktdp.memory_space<global>} "
        ": memref<f16>",
        "%t = ktdp.construct_access_tile %v[] {access_tile_set = affine_set<() : ()>, "
        "access_tile_order = affine_map<() -> ()>} : memref<f16> -> !ktdp.access_tile<index>",
        "%x = ktdp.load %t : <index> -> tensor<f16>",
        "%e = tensor.empty() : tensor<8xf16>",
        "%y = linalg.broadcast ins(%x : tensor<f16>) outs(%e : tensor<8xf16>) dimensions = [0]",
        store("y", [8]),
    )
    actual = run(text, px=np.array(1.5, np.float16), py=zeros(8))["py"]
    np.testing.assert_array_equal(actual, np.full(8, 1.5))


def test_empty_tile_transfers_nothing():
    x = half(4, 8)
    text = kernel(
        "px; py",
        view("v", "px", [4, 8]),
        view("w", "py", [4, 8]),
        tile("t", "v", ["%c0", "%c0"], [4, 8], [0, 8]),
        tile("u", "w", ["%c0", "%c0"], [4, 8], [0, 8]),
        "%x = ktdp.load %t : <0x8xindex> -> tensor<0x8xf16>",
        "ktdp.store %x, %u : tensor<0x8xf16>, <0x8xindex>",
    )
    np.testing.assert_array_equal(run(text, px=x, py=2 * x)["py"], 2 * x)


def test_a_declared_shape_of_the_same_count():
    x = half(4, 8)
    text = copy_tile([4, 8], ["%c0", "%c0"], [4, 8], loaded=[32])
    np.testing.assert_array_equal(run(text, px=x, py=zeros(32))["py"], x.ravel())


def test_a_tile_of_a_tensor():
    x = half(8, 8)
    text = kernel(
        "px; py; n",
        load("x", [8, 8]),
        "%t = ktdp.construct_access_tile %x[%n, %c4] {access_tile_set = "
        f"{box(2, 4)}}} : tensor<8x8xf16> -> !ktdp.access_tile<2x4xindex>",
        "%y = ktdp.load %t : <2x4xindex> -> tensor<2x4xf16>",
        store("y", [2, 4]),
    )
    np.testing.assert_array_equal(run(text, px=x, py=zeros(2, 4), n=3)["py"], x[3:5, 4:])


def loaded_from_tensor(declared, line):
    return kernel(
        "px; py",
        load("x", [8, 8], "f32"),
        "%t = ktdp.construct_access_tile %x[%c1, %c4] {access_tile_set = "
        f"{box(2, 4)}}} : tensor<8x8xf32> -> !ktdp.access_tile<2x4xindex>",
        f"%p = ktdp.load %t : <2x4xindex> -> {declared}",
        line,
        store("y", [8], "f32"),
    )


def test_a_tile_of_a_tensor_in_another_shape():
    text = loaded_from_tensor("tensor<8xf32>", "%y = arith.addf %p, %p : tensor<8xf32>")
    x = half(8, 8).astype(np.float32)
    actual = run(text, px=x, py=zeros(8, dtype=np.float32))["py"]
    np.testing.assert_array_equal(actual, 2 * x[1:3, 4:].ravel())


def test_tile_of_another_element_type_is_rejected():
    text = loaded_from_tensor(
        "tensor<8xf16>", "%y = arith.extf %p : tensor<8xf16> to tensor<8xf32>"
    )
    with pytest.raises(KtirError, match=r"ktdp\.load: the tile's tensor holds f32, the tensor f16"):
        ktir.load(text).compile("f")


def test_negative_anchor_reports_its_location():
    x = half(8)
    text = copy_tile([8], ["%n"], [4], arguments="px; py; n")
    with pytest.raises(RuntimeError, match="kernel f, core 0, instruction .* before the begin"):
        run(text, px=x, py=zeros(4), n=-2)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4), n=2)["py"], x[2:6])


def test_sizes_and_strides_as_values():
    text = kernel(
        "px; py; rows; columns",
        "%v = ktdp.construct_memory_view %px, sizes: [%rows, %columns], strides: [%columns, 1] "
        "{coordinate_set = affine_set<(i, j)[r, c] : (i >= 0, -i + r - 1 >= 0, j >= 0, "
        "-j + c - 1 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<?x?xf16>",
        f"%t = ktdp.construct_access_tile %v[%c1, %c2] {{access_tile_set = {box(2, 4)}}} "
        ": memref<?x?xf16> -> <2x4xindex>",
        "%y = ktdp.load %t : <2x4xindex> -> tensor<2x4xf16>",
        store("y", [2, 4]),
    )
    x = half(5, 9)
    actual = run(text, px=x, py=zeros(2, 4), rows=5, columns=9)["py"]
    np.testing.assert_array_equal(actual, x[1:3, 2:6])
