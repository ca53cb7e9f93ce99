"""Tests of gather, scatter, all-to-all, reduce-scatter and consume between cores."""

import numpy as np
import pytest
from communication_texts import ALL4, ME, ONE_GROUP, N, own_row, produce, reducing, store_row, zero
from run_texts import half, kernel, run, tensor, zeros

from torch_spyre.errors import KtirError


def test_consumers_of_their_left_neighbour():
    left = "affine_set<(p)[c, g] : (p - (c + 3) mod 4 == 0)>"
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        produce("x", [N]),
        f"%s = ktdp.inter_tile_consume(%fut) consumer_tiles_per_group = {ALL4}, "
        f"producer_dependency_per_consumer = {left} : <({tensor([N])}), groups = {ONE_GROUP}> "
        f"-> {tensor([N])}",
        store_row("s", 4, [N]),
        grid=[4],
    )
    x = half(4, N)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, N))["py"], np.roll(x, 1, axis=0))


def test_one_producer_for_all():
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        produce("x", [N], producers="affine_set<(i)[g] : (i - 2 == 0)>"),
        f"%s = ktdp.inter_tile_consume(%fut) consumer_tiles_per_group = {ALL4} "
        f": <({tensor([N])}), groups = {ONE_GROUP}> -> {tensor([N])}",
        store_row("s", 4, [N]),
        grid=[4],
    )
    x = half(4, N)
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(x[2], (4, 1)))


def test_a_reduce_of_some_producers_only():
    up_to = "affine_set<(p)[c] : (p >= 0, c - p >= 0)>"
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(reducing(dependency=up_to), px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.cumsum(x, axis=0))


def collective(op, clauses, result, shape=(8, N), producers=ALL4):
    return kernel(
        "px; py",
        ME,
        own_row(4, list(shape)),
        produce("x", list(shape), producers=producers),
        f"%s = ktdp.inter_tile_{op}(%fut) consumer_tiles_per_group = {ALL4}, {clauses} "
        f": <({tensor(shape)}), groups = {ONE_GROUP}> -> {tensor(result)}",
        store_row("s", 4, list(result)),
        grid=[4],
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis):
    shape = [[32, N], [8, 4 * N]][axis]
    x = half(4, 8, N)
    text = collective("gather", f"gather_dimensions = [{axis}]", shape)
    expected = np.concatenate(list(x), axis=axis)
    actual = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(actual, np.broadcast_to(expected, actual.shape))


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(axis):
    shape = [[2, N], [8, N // 4]][axis]
    x = half(4, 8, N)
    text = collective(
        "scatter",
        f"scatter_dimensions = [{axis}]",
        shape,
        producers="affine_set<(i)[g] : (i == 0)>",
    )
    expected = np.stack(np.split(x[0], 4, axis=axis))
    actual = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("split", "concat"), [(0, 1), (1, 0), (0, 0), (1, 1)])
def test_all_to_all(split, concat):
    x = half(4, 8, N)
    shape = [8, N]
    shape[split] //= 4
    shape[concat] *= 4
    text = collective(
        "all_to_all", f"split_dimensions = [{split}], concat_dimensions = [{concat}]", shape
    )
    expected = np.stack(
        [
            np.concatenate([np.split(x[core], 4, axis=split)[me] for core in range(4)], axis=concat)
            for me in range(4)
        ]
    )
    actual = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(actual, expected)


def reduce_scatter(axes, shape, result):
    kind = tensor(shape)
    return kernel(
        "px; py",
        ME,
        own_row(4, [*shape]),
        zero([*shape]),
        produce("x", [*shape]),
        f"%s = ktdp.inter_tile_reduce_scatter(%fut) consumer_tiles_per_group = {ALL4}, "
        f"scatter_dimensions = {[*axes]}, identity(%zero_s : {kind}) "
        f": <({kind}), groups = {ONE_GROUP}> -> {tensor(result)}",
        "{",
        f"^bb0(%l: {kind}, %r: {kind}):",
        f"%sum = arith.addf %l, %r : {kind}",
        f"ktdp.yield_reduced %sum : {kind}",
        "}",
        store_row("s", 4, [*result]),
        grid=[4],
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_scatter(axis):
    shape = [[2, N], [8, N // 4]][axis]
    x = np.random.default_rng(4).integers(-20, 20, (4, 8, N)).astype(np.float16)
    text = reduce_scatter([axis], [8, N], shape)
    actual = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(actual, np.stack(np.split(x.sum(0), 4, axis=axis)))


# Merged axes of tiles on the cores: the slices of a core are seldom whole rows.
NEIGHBOURS = [
    ((0, 1), (6, 2), (3, 1)),
    ((0, 1), (6, 2), (1, 3)),
    ((0, 1), (8, 3), (2, 3)),
    ((0, 1), (8, 3), (1, 6)),
    ((1, 2), (2, 6, 2), (2, 3, 1)),
    ((0, 1), (2, 6, 5), (3, 1, 5)),
    ((0, 1, 2), (3, 2, 2), (1, 3, 1)),
]


def slices_of(array, axes, shape):
    """Return the four slices of the merged axes."""
    outer = array.shape[: axes[0]]
    inner = array.shape[axes[-1] + 1 :]
    parts = np.split(array.reshape(*outer, -1, *inner), 4, axis=len(outer))
    return np.stack([part.reshape(shape) for part in parts])


@pytest.mark.parametrize(("axes", "shape", "result"), NEIGHBOURS)
def test_scatter_along_several_axes(axes, shape, result):
    x = half(4, *shape)
    first = "affine_set<(i)[g] : (i == 0)>"
    text = collective("scatter", f"scatter_dimensions = {[*axes]}", result, shape, first)
    actual = run(text, px=x, py=zeros(4, *result))["py"]
    np.testing.assert_array_equal(actual, slices_of(x[0], axes, result))


@pytest.mark.parametrize(("axes", "shape", "result"), NEIGHBOURS)
def test_reduce_scatter_along_several_axes(axes, shape, result):
    x = np.random.default_rng(4).integers(-20, 20, (4, *shape)).astype(np.float16)
    actual = run(reduce_scatter(axes, shape, result), px=x, py=zeros(4, *result))["py"]
    np.testing.assert_array_equal(actual, slices_of(x.sum(0), axes, result))


@pytest.mark.parametrize(("axes", "result", "shape"), NEIGHBOURS)
def test_gather_along_several_axes(axes, result, shape):
    x = half(4, *shape)
    text = collective("gather", f"gather_dimensions = {[*axes]}", result, shape)
    actual = run(text, px=x, py=zeros(4, *result))["py"]
    for core in range(4):
        np.testing.assert_array_equal(slices_of(actual[core], axes, shape), x)


def test_all_to_all_along_several_axes():
    x = half(4, 6, 2)
    axes = "split_dimensions = [0, 1], concat_dimensions = [0, 1]"
    actual = run(collective("all_to_all", axes, (6, 2), (6, 2)), px=x, py=zeros(4, 6, 2))["py"]
    expected = x.reshape(4, 4, 3).swapaxes(0, 1).reshape(4, 6, 2)
    np.testing.assert_array_equal(actual, expected)


def test_axes_that_are_not_adjacent():
    """The slices of the merged axis are boxes, or a transfer cannot express them."""
    first = "affine_set<(i)[g] : (i == 0)>"
    axes = "scatter_dimensions = [0, 2]"
    x = half(4, 4, 3, 2)
    text = collective("scatter", axes, (1, 3, 2), (4, 3, 2), first)
    actual = run(text, px=x, py=zeros(4, 1, 3, 2))["py"]
    np.testing.assert_array_equal(actual, x[0][:, None])
    with pytest.raises(KtirError, match=r"slices of shape \[1, 3, 2\] do not fill .*\[2, 3, 1\]"):
        run(
            collective("scatter", axes, (2, 3, 1), (4, 3, 2), first),
            px=x,
            py=zeros(4, 2, 3, 1),
        )
    with pytest.raises(KtirError, match=r"3 consecutive elements of axes \[0, 2\] are not a box"):
        run(
            collective("scatter", axes, (3, 3, 1), (6, 3, 2), first),
            px=half(4, 6, 3, 2),
            py=zeros(4, 3, 3, 1),
        )
