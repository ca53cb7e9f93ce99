"""Cores that tell each other tiles: all inter-tile ops, groups, roles, loops."""

import numpy as np
import pytest
from run_texts import half, kernel, run, shape_text, tensor, tile, view, zeros

from torch_spyre import ktir
from torch_spyre.ktir.errors import KtirError

N = 16
ALL4 = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>"
PAIRS = "affine_set<(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)>"
STRIDED = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, (i - g) mod 2 == 0)>"
FIRST = "affine_set<(i)[g] : (i == 0)>"
ONE_GROUP = "affine_set<(g) : (g == 0)>"
TWO_GROUPS = "affine_set<(g) : (g >= 0, -g + 1 >= 0)>"


def own_row(cores, sizes, type="f16", name="x"):
    """Loads row `%me` of `p<name>`."""
    return [
        view(f"{name}v", f"p{name}", [cores, *sizes], type),
        tile(
            f"{name}t",
            f"{name}v",
            ["%me", *["%c0"] * len(sizes)],
            [cores, *sizes],
            [1, *sizes],
            type,
        ),
        f"%{name}1 = ktdp.load %{name}t : <{shape_text([1, *sizes], 'index')}> -> {tensor([1, *sizes], type)}",
        reshape(f"{name}1", name, [1, *sizes], sizes, type),
    ]


def reshape(source, result, before, after, type="f16"):
    """Drops or adds the first dim."""
    wide, narrow = (before, after) if len(before) > len(after) else (after, before)
    pairs = [[0, 1], *[[dim] for dim in range(2, len(wide))]]
    op = "collapse_shape" if len(before) > len(after) else "expand_shape"
    shape = f" output_shape {after}" if op == "expand_shape" else ""
    return f"%{result} = tensor.{op} %{source} {pairs}{shape} : {tensor(before, type)} into {tensor(after, type)}"


def store_row(name, cores, sizes, type="f16", out="py"):
    return [
        reshape(name, f"{name}_row", sizes, [1, *sizes], type),
        view(f"{name}_out", out, [cores, *sizes], type),
        tile(
            f"{name}_to",
            f"{name}_out",
            ["%me", *["%c0"] * len(sizes)],
            [cores, *sizes],
            [1, *sizes],
            type,
        ),
        f"ktdp.store %{name}_row, %{name}_to : {tensor([1, *sizes], type)}, "
        f"<{shape_text([1, *sizes], 'index')}>",
    ]


def produce(value, shape, *, producers=ALL4, groups=ONE_GROUP, type="f16", future="fut"):
    return [
        f"%{future} = ktdp.inter_tile_produce producer_tiles_per_group = {producers} "
        f"-> <({tensor(shape, type)}), groups = {groups}>",
        "{",
        "^bb0(%gid: index):",
        f"  ktdp.yield_partial %{value} : {tensor(shape, type)}",
        "}",
    ]


def reduce(
    shape,
    *,
    consumers=ALL4,
    groups=ONE_GROUP,
    op="arith.addf",
    result=None,
    type="f16",
    name="s",
    future="fut",
    dependency=None,
):
    needs = f"producer_dependency_per_consumer = {dependency}, " if dependency else ""
    kind = tensor(shape, type)
    return [
        f"%{name} = ktdp.inter_tile_reduce(%{future}) consumer_tiles_per_group = {consumers}, "
        f"{needs}identity(%zero_{name} : {kind}) : <({kind}), groups = {groups}> "
        f"-> {tensor(result or shape, type)}",
        "{",
        f"^bb0(%l: {kind}, %r: {kind}):",
        f"  %sum = {op} %l, %r : {kind}",
        f"  ktdp.yield_reduced %sum : {kind}",
        "}",
    ]


def zero(shape, type="f16", name="s"):
    return f"%zero_{name} = arith.constant dense<0.0> : {tensor(shape, type)}"


ME = "%me = ktdp.get_compute_tile_id : index"


def reducing(**options):
    consumers = options.get("consumers", ALL4)
    producers = options.pop("producers", consumers)
    groups = options.get("groups", ONE_GROUP)
    return kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        produce("x", [N], producers=producers, groups=groups),
        reduce([N], **options),
        store_row("s", 4, [N]),
        grid=[4],
    )


def test_four_cores_all_get_the_sum():
    x = np.repeat(np.array([[1], [2], [3], [4]], np.float16), N, axis=1)
    np.testing.assert_array_equal(run(reducing(), px=x, py=zeros(4, N))["py"], np.full((4, N), 10))


@pytest.mark.parametrize(
    ("members", "rows"), [(PAIRS, [[0, 1], [2, 3]]), (STRIDED, [[0, 2], [1, 3]])]
)
def test_groups_reduce_apart(members, rows):
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    found = run(reducing(consumers=members, groups=TWO_GROUPS), px=x, py=zeros(4, N))["py"]
    expected = zeros(4, N)
    for row in rows:
        expected[row] = x[row].sum(0)
    np.testing.assert_array_equal(found, expected)


def test_the_maximum_over_cores():
    x = half(4, N)
    found = run(reducing(op="arith.maximumf"), px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(x.max(0), (4, 1)))


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
    found = run(text, px=x, py=zeros(1, N))["py"]
    np.testing.assert_array_equal(found[0], x.sum(0))


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
    found = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(x.sum(0), (4, 1)))


def test_the_older_spelling_of_futures():
    text = reducing().replace(
        f"<({tensor([N])}), groups = {ONE_GROUP}>", f"!ktdp.tile_future<{tensor([N])}, {ONE_GROUP}>"
    )
    assert "groups" not in text
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    found = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(x.sum(0), (4, 1)))


def test_a_combiner_of_linalg_ops():
    text = reducing().replace(
        f"  %sum = arith.addf %l, %r : {tensor([N])}",
        f"  %e = tensor.empty() : {tensor([N])}\n"
        f"  %sum = linalg.add ins(%l, %r : {tensor([N])}, {tensor([N])}) "
        f"outs(%e : {tensor([N])}) -> {tensor([N])}",
    )
    assert "linalg.add" in text
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N)
    found = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(x.sum(0), (4, 1)))


def test_the_group_is_known_to_the_producer():
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


def test_two_roles_keep_together():
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
        f"^bb0(%lv: {tensor([N])}, %li: {tensor([N], 'i32')}, %rv: {tensor([N])}, %ri: {tensor([N], 'i32')}):",
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
    found = run(text, px=x, py=zeros(4, N), pi=np.zeros((4, N), np.int32))
    np.testing.assert_array_equal(found["py"], np.tile(x.max(0), (4, 1)))
    np.testing.assert_array_equal(found["pi"], np.tile(x.argmax(0), (4, 1)))


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


def looped(trips):
    return kernel(
        "px; py; n",
        ME,
        own_row(4, [N]),
        zero([N]),
        f"%total = scf.for %k = %c0 to {trips} step %c1 iter_args(%acc = %zero_s) -> ({tensor([N])}) {{",
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
    found = run(looped("%n"), px=x, py=np.ones((4, N), np.float16), n=trips)["py"]
    np.testing.assert_array_equal(found, np.tile(trips * x.sum(0), (4, 1)))


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
def test_reducing_where_all_cores_take_the_branch(yes):
    x = np.arange(4 * N, dtype=np.float16).reshape(4, N) % 5
    text = conditional("%yes = arith.cmpi sgt, %n, %c0 : index")
    found = run(text, px=x, py=zeros(4, N), n=int(yes))["py"]
    np.testing.assert_array_equal(found, np.tile(x.sum(0), (4, 1)) if yes else x)


def test_a_core_that_stays_away_is_a_deadlock():
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
    found = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(found, np.tile(2 * x.sum(0), (4, 1)))


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
    """Each core passes on what n - 1 others have."""
    everyone = f"affine_set<(i)[g] : (i >= 0, -i + {cores - 1} >= 0)>"
    text = kernel(
        "px; py",
        ME,
        own_row(cores, [N]),
        zero([N]),
        produce("x", [N], producers=everyone),
        reduce([N], consumers=everyone),
        store_row("s", cores, [N]),
        grid=[cores],
    )
    module = ktir.load(text)
    sent = module.estimate("f").ring_byte_hops
    assert sent == cores * (cores - 1) * N * 2
    found = module.run("f", px=np.ones((cores, N), np.float16), py=zeros(cores, N))["py"]
    np.testing.assert_array_equal(found, np.full((cores, N), cores))
