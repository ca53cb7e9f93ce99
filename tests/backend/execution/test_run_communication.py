"""Tests of reductions over cores: groups, several tiles, loops and branches."""

import numpy as np
import pytest
from communication_texts import (
    ALL4,
    FIRST,
    ME,
    ONE_GROUP,
    PAIRS,
    STRIDED,
    TWO_GROUPS,
    N,
    own_row,
    produce,
    reduce,
    reducing,
    store_row,
    zero,
)
from run_texts import half, kernel, run, tensor, tile, view, zeros

from torch_spyre import ktir
from torch_spyre.errors import KtirError


def test_all_cores_receive_the_sum():
    x = np.repeat(np.array([[1], [2], [3], [4]], np.float16), N, axis=1)
    np.testing.assert_array_equal(run(reducing(), px=x, py=zeros(4, N))["py"], np.full((4, N), 10))


@pytest.mark.parametrize(
    ("members", "rows"), [(PAIRS, [[0, 1], [2, 3]]), (STRIDED, [[0, 2], [1, 3]])]
)
def test_groups_reduce_separately(members, rows):
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(reducing(consumers=members, groups=TWO_GROUPS), px=x, py=zeros(4, N))["py"]
    expected = zeros(4, N)
    for row in rows:
        expected[row] = x[row].sum(0)
    np.testing.assert_array_equal(actual, expected)


def test_the_maximum_over_cores():
    x = half(4, N)
    actual = run(reducing(op="arith.maximumf"), px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(x.max(0), (4, 1)))


def test_one_consumer():
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        produce("x", [N]),
        reduce([N], consumers=FIRST),
        "%first = arith.cmpi eq, %me, %c0 : index",
        "scf.if %first {",
        store_row("s", 1, [N]),
        "}",
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(text, px=x, py=zeros(1, N))["py"]
    np.testing.assert_array_equal(actual[0], x.sum(0))


def test_a_result_of_another_rank():
    text = kernel(
        "px; py",
        ME,
        view("xv", "px", [4, N]),
        tile("xt", "xv", ["%me", "%c0"], [4, N], [1, N]),
        f"%x = ktdp.load %xt : <1x{N}xindex> -> {tensor([1, N])}",
        zero([1, N]),
        produce("x", [1, N]),
        reduce([1, N], result=[N]),
        store_row("s", 4, [N]),
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(x.sum(0), (4, 1)))


def test_the_older_spelling_of_futures():
    text = reducing().replace(
        f"<({tensor([N])}), groups = {ONE_GROUP}>", f"!ktdp.tile_future<{tensor([N])}, {ONE_GROUP}>"
    )
    assert "groups" not in text
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(x.sum(0), (4, 1)))


def test_a_combiner_of_linalg_ops():
    text = reducing().replace(
        f"  %sum = arith.addf %l, %r : {tensor([N])}",
        f"  %e = tensor.empty() : {tensor([N])}\n"
        f"  %sum = linalg.add ins(%l, %r : {tensor([N])}, {tensor([N])}) "
        f"outs(%e : {tensor([N])}) -> {tensor([N])}",
    )
    assert "linalg.add" in text
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(x.sum(0), (4, 1)))


def test_producer_reads_the_group_size():
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        f"%fut = ktdp.inter_tile_produce producer_tiles_per_group = {PAIRS} "
        f"-> <({tensor([N])}), groups = {TWO_GROUPS}>",
        "{",
        "^bb0(%gid: index):",
        "%g32 = arith.index_cast %gid : index to i32",
        "%gf = arith.sitofp %g32 : i32 to f16",
        f"%gs = tensor.splat %gf : {tensor([N])}",
        f"%xg = arith.addf %x, %gs : {tensor([N])}",
        f"ktdp.yield_partial %xg : {tensor([N])}",
        "}",
        reduce([N], consumers=PAIRS, groups=TWO_GROUPS),
        store_row("s", 4, [N]),
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    expected = np.repeat([x[:2].sum(0), x[2:].sum(0) + 2], 2, axis=0)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, N))["py"], expected)


def test_two_tiles_are_reduced_together():
    """The largest value and the core that has it."""
    pair = f"{tensor([N])}, {tensor([N], 'i32')}"
    future = f"<({pair}), groups = {ONE_GROUP}>"
    text = kernel(
        "px; py; pi",
        ME,
        own_row(4, [N]),
        zero([N]),
        f"%nobody = arith.constant dense<-1> : {tensor([N], 'i32')}",
        "%m32 = arith.index_cast %me : index to i32",
        f"%who = tensor.splat %m32 : {tensor([N], 'i32')}",
        f"%fut = ktdp.inter_tile_produce producer_tiles_per_group = {ALL4} -> {future}",
        "{",
        "^bb0(%gid: index):",
        f"ktdp.yield_partial %x, %who : {pair}",
        "}",
        f"%s, %w = ktdp.inter_tile_reduce(%fut) consumer_tiles_per_group = {ALL4}, "
        f"identity(%zero_s, %nobody : {pair}) : {future} -> {pair}",
        "{",
        f"^bb0(%lv: {tensor([N])}, %li: {tensor([N], 'i32')}, "
        f"%rv: {tensor([N])}, %ri: {tensor([N], 'i32')}):",
        f"%more = arith.cmpf ogt, %rv, %lv : {tensor([N])}",
        f"%v = arith.select %more, %rv, %lv : {tensor([N], 'i1')}, {tensor([N])}",
        f"%i = arith.select %more, %ri, %li : {tensor([N], 'i1')}, {tensor([N], 'i32')}",
        f"ktdp.yield_reduced %v, %i : {pair}",
        "}",
        store_row("s", 4, [N]),
        store_row("w", 4, [N], "i32", out="pi"),
        grid=[4],
    )
    x = half(4, N)
    actual = run(text, px=x, py=zeros(4, N), pi=np.zeros((4, N), np.int32))
    np.testing.assert_array_equal(actual["py"], np.tile(x.max(0), (4, 1)))
    np.testing.assert_array_equal(actual["pi"], np.tile(x.argmax(0), (4, 1)))


def looped(trips):
    return kernel(
        "px; py; n",
        ME,
        own_row(4, [N]),
        zero([N]),
        f"%total = scf.for %k = %c0 to {trips} step %c1 iter_args(%acc = %zero_s) "
        f"-> ({tensor([N])}) {{",
        produce("x", [N]),
        reduce([N]),
        f"%next = arith.addf %acc, %s : {tensor([N])}",
        f"scf.yield %next : {tensor([N])}",
        "}",
        store_row("total", 4, [N]),
        grid=[4],
    )


@pytest.mark.parametrize("trips", [0, 1, 3, 7])
def test_reducing_in_a_loop_of_a_runtime_trip_count(trips):
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    actual = run(looped("%n"), px=x, py=np.ones((4, N), np.float16), n=trips)["py"]
    np.testing.assert_array_equal(actual, np.tile(trips * x.sum(0), (4, 1)))


def conditional(condition):
    return kernel(
        "px; py; n",
        ME,
        own_row(4, [N]),
        zero([N]),
        condition,
        f"%total = scf.if %yes -> ({tensor([N])}) {{",
        produce("x", [N]),
        reduce([N]),
        f"scf.yield %s : {tensor([N])}",
        "} else {",
        f"scf.yield %x : {tensor([N])}",
        "}",
        store_row("total", 4, [N]),
        grid=[4],
    )


@pytest.mark.parametrize("yes", [True, False])
def test_a_reduction_in_a_branch_that_all_cores_take(yes):
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    text = conditional("%yes = arith.cmpi sgt, %n, %c0 : index")
    actual = run(text, px=x, py=zeros(4, N), n=int(yes))["py"]
    np.testing.assert_array_equal(actual, np.tile(x.sum(0), (4, 1)) if yes else x)


def test_a_core_that_does_not_participate_is_a_deadlock():
    x = np.ones((4, N), np.float16)
    text = conditional("%yes = arith.cmpi ult, %me, %c3 : index")
    with pytest.raises(RuntimeError, match="Deadlock detected: core 0 waiting on recv from core 3"):
        run(text, px=x, py=zeros(4, N), n=0)
    np.testing.assert_array_equal(run(reducing(), px=x, py=zeros(4, N))["py"], 4 * x)


def test_two_reductions_one_after_the_other():
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        zero([N], name="m"),
        produce("x", [N]),
        reduce([N]),
        produce("s", [N], producers=PAIRS, groups=TWO_GROUPS, future="other"),
        reduce([N], consumers=PAIRS, groups=TWO_GROUPS, name="m", future="other"),
        store_row("m", 4, [N]),
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.tile(2 * x.sum(0), (4, 1)))


def test_groups_of_columns_of_a_2d_grid():
    """Flat ids count x first: cores 0, 2 and 1, 3 share an x on a 2x2 grid."""
    text = kernel(
        "px; py",
        "%gx, %gy = ktdp.get_compute_tile_id : index, index",
        "%me = %gy * %c2 : index",
        "%flat = %me + %gx : index",
        [line.replace("%me", "%flat") for line in own_row(4, [N])],
        zero([N]),
        produce("x", [N], producers=STRIDED, groups=TWO_GROUPS),
        reduce([N], consumers=STRIDED, groups=TWO_GROUPS),
        [line.replace("%me", "%flat") for line in store_row("s", 4, [N])],
        grid=[2, 2],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    expected = np.tile([x[0] + x[2], x[1] + x[3]], (2, 1))
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, N))["py"], expected)


def test_sixteen_cores_in_four_groups():
    fours = "affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>"
    groups = "affine_set<(g) : (g >= 0, -g + 3 >= 0)>"
    text = kernel(
        "px; py",
        ME,
        own_row(16, [N]),
        zero([N]),
        produce("x", [N], producers=fours, groups=groups),
        reduce([N], consumers=fours, groups=groups),
        store_row("s", 16, [N]),
        grid=[16],
    )
    x = (np.arange(16 * N) % 7).astype(np.float16).reshape(16, N)
    expected = np.repeat(x.reshape(4, 4, N).sum(1), 4, axis=0)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(16, N))["py"], expected)


@pytest.mark.parametrize(
    ("producers", "groups", "problem"),
    [
        ("affine_set<(i)[g] : (i >= 0, -i + 2 >= 0)>", ONE_GROUP, "core 3 is in no group"),
        (ALL4, TWO_GROUPS, "core 0 is in 2 groups"),
    ],
)
def test_a_core_reduces_in_exactly_one_group(producers, groups, problem):
    text = reducing(producers=producers, consumers=producers, groups=groups)
    with pytest.raises(KtirError, match=problem):
        run(text, px=zeros(4, N), py=zeros(4, N))


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_every_tile_goes_once_around_the_ring(cores):
    """Each core forwards the tiles of n - 1 other cores."""
    size = 64  # a stick, so that no two cores load the same one
    everyone = f"affine_set<(i)[g] : (i >= 0, -i + {cores - 1} >= 0)>"
    text = kernel(
        "px; py",
        ME,
        own_row(cores, [size]),
        zero([size]),
        produce("x", [size], producers=everyone),
        reduce([size], consumers=everyone),
        store_row("s", cores, [size]),
        grid=[cores],
    )
    module = ktir.load(text)
    sent = module.estimate("f").ring_byte_hops
    assert sent == cores * (cores - 1) * size * 2
    actual = module.run("f", px=np.ones((cores, size), np.float16), py=zeros(cores, size))["py"]
    np.testing.assert_array_equal(actual, np.full((cores, size), cores))


def test_groups_may_have_different_members():
    """Group 0 reduces once, group 1 twice."""
    text = kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        "%g = arith.divui %me, %c2 : index",
        "%n = arith.addi %g, %c1 : index",
        f"%total = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero_s) -> {tensor([N])} {{",
        produce("x", [N], producers=PAIRS, groups=TWO_GROUPS),
        reduce([N], consumers=PAIRS, groups=TWO_GROUPS),
        f"%next = arith.addf %acc, %s : {tensor([N])}",
        f"scf.yield %next : {tensor([N])}",
        "}",
        store_row("total", 4, [N]),
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    expected = np.repeat([x[0] + x[1], 2 * (x[2] + x[3])], 2, axis=0)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(4, N))["py"], expected)


@pytest.mark.parametrize("taken", [True, False])
def test_a_tile_may_be_consumed_in_a_branch(taken):
    text = kernel(
        "px; py; n",
        ME,
        own_row(4, [N]),
        zero([N]),
        produce("x", [N]),
        "%yes = arith.cmpi sgt, %n, %c0 : index",
        f"%total = scf.if %yes -> ({tensor([N])}) {{",
        reduce([N]),
        f"scf.yield %s : {tensor([N])}",
        "} else {",
        f"scf.yield %x : {tensor([N])}",
        "}",
        store_row("total", 4, [N]),
        grid=[4],
    )
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    expected = np.tile(x.sum(0), (4, 1)) if taken else x
    actual = run(text, px=x, py=zeros(4, N), n=int(taken))["py"]
    np.testing.assert_array_equal(actual, expected)
