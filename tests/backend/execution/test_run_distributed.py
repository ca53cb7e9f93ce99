"""Tests of distributed views: several memories with one set of coordinates."""

import numpy as np
import pytest
from run_texts import box, half, kernel, load, run, shape_text, store, tensor, tile, view, zeros

from torch_spyre.errors import KtirError


def distributed(name, parts, sizes, type="f16"):
    """A line that joins the views `parts`: names with their sizes."""
    names = ", ".join(f"%{part}" for part in parts)
    types = ", ".join(f"memref<{shape_text(shape, type)}>" for shape in parts.values())
    return (
        f"%{name} = ktdp.construct_distributed_memory_view ({names} : {types}) "
        f": memref<{shape_text(sizes, type)}>"
    )


def read(at, shape, view_sizes, name="all"):
    return [
        tile("t", name, at, view_sizes, shape),
        f"%y = ktdp.load %t : <{shape_text(shape, 'index')}> -> {tensor(shape)}",
        store("y", shape),
    ]


TWO_ROWS = [
    view("a", "pa", [4, 8]),
    view("b", "pb", [4, 8], coordinates=box(4, 8, lower=[4, 0])),
    distributed("all", {"a": [4, 8], "b": [4, 8]}, [8, 8]),
]


def test_a_tile_in_one_partition():
    a, b = half(4, 8), half(4, 8, seed=1)
    text = kernel("pa; pb; py", TWO_ROWS, read(["%c4", "%c1"], [2, 4], [8, 8]))
    np.testing.assert_array_equal(run(text, pa=a, pb=b, py=zeros(2, 4))["py"], b[:2, 1:5])


def test_a_tile_across_partitions():
    a, b = half(4, 8), half(4, 8, seed=1)
    text = kernel("pa; pb; py", TWO_ROWS, read(["%c2", "%c0"], [4, 8], [8, 8]))
    expected = np.vstack([a, b])[2:6]
    np.testing.assert_array_equal(run(text, pa=a, pb=b, py=zeros(4, 8))["py"], expected)


def test_writing_across_partitions():
    text = kernel(
        "pa; pb; px",
        TWO_ROWS,
        load("x", [4, 8]),
        tile("t", "all", ["%c2", "%c0"], [8, 8], [4, 8]),
        "ktdp.store %x, %t : tensor<4x8xf16>, <4x8xindex>",
    )
    a, b, x = half(4, 8), half(4, 8, seed=1), half(4, 8, seed=2)
    actual = run(text, pa=a, pb=b, px=x)
    np.testing.assert_array_equal(actual["pa"], np.vstack([a[:2], x[:2]]))
    np.testing.assert_array_equal(actual["pb"], np.vstack([x[2:], b[2:]]))


def test_a_tile_that_no_partition_covers_is_an_error():
    text = kernel("pa; pb; py", TWO_ROWS, read(["%c4", "%c1"], [2, 8], [8, 8]))
    with pytest.raises(RuntimeError, match=r"kernel f, core 0.*no partition .* \(4, 8\)"):
        run(text, pa=half(4, 8), pb=half(4, 8), py=zeros(2, 8))


def test_four_quadrants():
    quadrants = {"a": [0, 0], "b": [0, 4], "c": [4, 0], "d": [4, 4]}
    text = kernel(
        "pa; pb; pc; pd; py",
        [view(n, f"p{n}", [4, 4], coordinates=box(4, 4, lower=at)) for n, at in quadrants.items()],
        distributed("all", {name: [4, 4] for name in quadrants}, [8, 8]),
        read(["%c1", "%c2"], [6, 5], [8, 8]),
    )
    parts = {f"p{name}": half(4, 4, seed=seed) for seed, name in enumerate(quadrants)}
    whole = np.block([[parts["pa"], parts["pb"]], [parts["pc"], parts["pd"]]])
    np.testing.assert_array_equal(run(text, **parts, py=zeros(6, 5))["py"], whole[1:7, 2:7])


def test_global_and_two_scratchpads_with_one_by_columns():
    """Rows 0..3 in device memory, 4..7 in core 0's scratchpad, 8..11 by columns in core 1's."""
    middle = [
        view("m", "c0", [4, 8], space="ct_local, ct_id = 0", coordinates=box(4, 8, lower=[4, 0])),
        view(
            "n",
            "c0",
            [4, 8],
            space="ct_local, ct_id = 1",
            strides=[1, 4],
            coordinates=box(4, 8, lower=[8, 0]),
        ),
    ]
    fill = [
        "%me = ktdp.get_compute_tile_id : index",
        view("local", "c0", [4, 8], space="ct_local"),
        view("local_columns", "c0", [4, 8], space="ct_local", strides=[1, 4]),
        load("p", [4, 8], base="pm"),
        load("q", [4, 8], base="pn"),
        "%first = arith.cmpi eq, %me, %c0 : index",
        "scf.if %first {",
        tile("pt", "local", ["%c0", "%c0"], [4, 8], [4, 8]),
        "ktdp.store %p, %pt : tensor<4x8xf16>, <4x8xindex>",
        "} else {",
        tile("qt", "local_columns", ["%c0", "%c0"], [4, 8], [4, 8]),
        "ktdp.store %q, %qt : tensor<4x8xf16>, <4x8xindex>",
        "}",
    ]
    text = kernel(
        "pa; pm; pn; py",
        fill,
        view("a", "pa", [4, 8]),
        middle,
        distributed("all", {"a": [4, 8], "m": [4, 8], "n": [4, 8]}, [12, 8]),
        "%last = arith.cmpi eq, %me, %c1 : index",
        "scf.if %last {",
        read(["%c0", "%c0"], [12, 8], [12, 8]),
        "}",
        grid=[2],
    )
    a, m, n = (half(4, 8, seed=seed) for seed in range(3))
    actual = run(text, pa=a, pm=m, pn=n, py=zeros(12, 8))["py"]
    np.testing.assert_array_equal(actual, np.vstack([a, m, n]))


def test_sizes_known_at_run_time_only():
    first = "affine_set<(i, j)[n] : (i >= 0, -i + n - 1 >= 0, j >= 0, -j + 7 >= 0)>"
    second = "affine_set<(i, j)[n] : (i - 4 >= 0, -i + n + 3 >= 0, j >= 0, -j + 7 >= 0)>"

    def part(name, base, coordinates):
        return (
            f"%{name} = ktdp.construct_memory_view %{base}, sizes: [%n, 8], strides: [8, 1] "
            f"{{coordinate_set = {coordinates}, memory_space = #ktdp.memory_space<global>}} "
            ": memref<?x8xf16>"
        )

    text = kernel(
        "pa; pb; py; n",
        part("a", "pa", first),
        part("b", "pb", second),
        distributed("all", {"a": ["?", 8], "b": ["?", 8]}, ["?", 8]),
        read(["%c2", "%c0"], [4, 8], ["?", 8]),
    )
    a, b = half(4, 8), half(4, 8, seed=1)
    actual = run(text, pa=a, pb=b, py=zeros(4, 8), n=4)["py"]
    np.testing.assert_array_equal(actual, np.vstack([a, b])[2:6])


def test_a_triangle_is_stored_inside_its_box():
    lower = "affine_set<(i, j) : (i >= 0, -i + 3 >= 0, j >= 0, i - j >= 0)>"
    upper = "affine_set<(i, j) : (i >= 0, -i + 3 >= 0, -j + 3 >= 0, j - i - 1 >= 0)>"
    text = kernel(
        "pa; pb; py",
        view("a", "pa", [4, 4], coordinates=lower),
        view("b", "pb", [4, 4], coordinates=upper),
        distributed("all", {"a": [4, 4], "b": [4, 4]}, [4, 4]),
        read(["%c0", "%c0"], [4, 4], [4, 4]),
    )
    a, b = half(4, 4), half(4, 4, seed=1)
    expected = np.where(np.tril(np.ones((4, 4), bool)), a, np.roll(b, 1, axis=1))
    np.testing.assert_array_equal(run(text, pa=a, pb=b, py=zeros(4, 4))["py"], expected)


def test_last_of_overlapping_partitions_is_read():
    text = kernel(
        "pa; pb; py",
        view("a", "pa", [6, 8]),
        view("b", "pb", [4, 8], coordinates=box(4, 8, lower=[4, 0])),
        distributed("all", {"a": [6, 8], "b": [4, 8]}, [8, 8]),
        read(["%c0", "%c0"], [8, 8], [8, 8]),
    )
    a, b = half(6, 8), half(4, 8, seed=1)
    actual = run(text, pa=a, pb=b, py=zeros(8, 8))["py"]
    np.testing.assert_array_equal(actual, np.vstack([a[:4], b]))


@pytest.mark.parametrize("axes", ["(i, j)", "(j, i)"])
def test_an_order_on_a_distributed_view(axes):
    a, b = half(4, 8), half(4, 8, seed=1)
    whole = np.vstack([a, b])[1:7, 2:5]
    expected = whole if axes == "(i, j)" else whole.T
    text = kernel(
        "pa; pb; py",
        TWO_ROWS,
        tile(
            "t",
            "all",
            ["%c1", "%c2"],
            [8, 8],
            expected.shape,
            points=box(6, 3),
            order=f"affine_map<(i, j) -> {axes}>",
        ),
        f"%y = ktdp.load %t : <{shape_text(expected.shape, 'index')}> -> {tensor(expected.shape)}",
        store("y", expected.shape),
    )
    actual = run(text, pa=a, pb=b, py=np.zeros(expected.shape, np.float16))["py"]
    np.testing.assert_array_equal(actual, expected)


def test_a_gather_from_a_distributed_view_is_rejected():
    text = kernel(
        "pa; pb; pi; py",
        TWO_ROWS,
        view("ids", "pi", [4], "i32"),
        "%t = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) "
        f"%all[ind(%ids[%r]), (%c)] {{variables_space_set = {box(4, 8)}}} "
        ": memref<8x8xf16>, memref<4xi32> -> !ktdp.access_tile<4x8xindex>",
    )
    with pytest.raises(KtirError, match="base of an indirect tile must be a single memory view"):
        run(text, pa=half(4, 8), pb=half(4, 8), pi=np.zeros(4, np.int32), py=zeros(4, 8))


def test_reading_the_scratchpad_of_another_core():
    text = kernel(
        "px; py",
        "%me = ktdp.get_compute_tile_id : index",
        view("x_view", "px", [2, 8]),
        tile("xt", "x_view", ["%me", "%c0"], [2, 8], [1, 8]),
        "%x = ktdp.load %xt : <1x8xindex> -> tensor<1x8xf16>",
        view("mine", "c4", [1, 8], space="ct_local"),
        tile("mt", "mine", ["%c0", "%c0"], [1, 8], [1, 8]),
        "ktdp.store %x, %mt : tensor<1x8xf16>, <1x8xindex>",
        view("theirs", "c4", [1, 8], space="ct_local, ct_id = 0"),
        tile("tt", "theirs", ["%c0", "%c0"], [1, 8], [1, 8]),
        "%t = ktdp.load %tt : <1x8xindex> -> tensor<1x8xf16>",
        view("y_view", "py", [2, 8]),
        tile("yt", "y_view", ["%me", "%c0"], [2, 8], [1, 8]),
        "ktdp.store %t, %yt : tensor<1x8xf16>, <1x8xindex>",
        grid=[2],
    )
    x = half(2, 8)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(2, 8))["py"], x[[0, 0]])
