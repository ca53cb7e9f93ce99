"""All ops that deliver what cores produce, but the plain reduce."""

import numpy as np
import pytest
from communication_texts import ALL4, ME, ONE_GROUP, N, own_row, produce, reducing, store_row, zero
from run_texts import half, kernel, run, tensor, zeros


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
    found = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(x[2], (4, 1)))


def test_a_reduce_of_some_producers_only():
    up_to = "affine_set<(p)[c] : (p >= 0, c - p >= 0)>"
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    found = run(reducing(dependency=up_to), px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.cumsum(x, axis=0))


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
    found = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


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
    found = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(found, expected)


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
    found = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_scatter(axis):
    shape = [[2, N], [8, N // 4]][axis]
    kind = tensor([8, N])
    text = kernel(
        "px; py",
        ME,
        own_row(4, [8, N]),
        zero([8, N]),
        produce("x", [8, N]),
        f"%s = ktdp.inter_tile_reduce_scatter(%fut) consumer_tiles_per_group = {ALL4}, "
        f"scatter_dimensions = [{axis}], identity(%zero_s : {kind}) "
        f": <({kind}), groups = {ONE_GROUP}> -> {tensor(shape)}",
        "{",
        f"^bb0(%l: {kind}, %r: {kind}):",
        f"%sum = arith.addf %l, %r : {kind}",
        f"ktdp.yield_reduced %sum : {kind}",
        "}",
        store_row("s", 4, shape),
        grid=[4],
    )
    x = np.random.default_rng(4).integers(-20, 20, (4, 8, N)).astype(np.float16)
    found = run(text, px=x, py=np.zeros((4, *shape), np.float16))["py"]
    np.testing.assert_array_equal(found, np.stack(np.split(x.sum(0), 4, axis=axis)))
