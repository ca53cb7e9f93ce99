"""Tests of reductions whose results depend on each other."""

import numpy as np
import pytest
from run_texts import half, kernel, load, numpy_type, run, shape_text, store, tensor

from torch_spyre.errors import KtirError

# NaN wins over all values; of equal values the first wins, in any order of reduction.
BETTER = [
    "%above = arith.cmpf ogt, %x, %best : {type}",
    "%nan = arith.cmpf uno, %x, %x : {type}",
    "%number = arith.cmpf ord, %best, %best : {type}",
    "%best_nan = arith.cmpf uno, %best, %best : {type}",
    "%first_nan = arith.andi %nan, %number : i1",
    "%nans = arith.andi %nan, %best_nan : i1",
    "%equal = arith.cmpf oeq, %x, %best : {type}",
    "%same = arith.ori %equal, %nans : i1",
    "%before = arith.cmpi slt, %here, %place : i32",
    "%earlier = arith.andi %same, %before : i1",
    "%better = arith.ori %above, %first_nan : i1",
    "%take = arith.ori %better, %earlier : i1",
]
# Only the order of elements decides between equal ones.
FIRST = ["%take = arith.cmpf ogt, %x, %best : {type}"]


def generic(sizes, dim, type, decide, *, source="%a", index=(), outs=("%ov", "%oi")):
    names = [f"d{loop}" for loop in range(len(sizes))]
    loops = ", ".join(names)
    kept = ", ".join(name for loop, name in enumerate(names) if loop != dim)
    left = [size for loop, size in enumerate(sizes) if loop != dim]
    kinds = ", ".join('"reduction"' if loop == dim else '"parallel"' for loop in range(len(sizes)))
    values, places = tensor(left, type), tensor(left, "i32")
    kept_map = f"affine_map<({loops}) -> ({kept})>"
    body = [
        f"%at = linalg.index {dim} : index",
        *(index or ["%here = arith.index_cast %at : index to i32"]),
        *(line.format(type=type) for line in decide),
        f"%kept = arith.select %take, %x, %best : {type}",
        "%where = arith.select %take, %here, %place : i32",
        f"linalg.yield %kept, %where : {type}, i32",
    ]
    return [
        f"%v, %i = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>, "
        f"{kept_map}, {kept_map}], iterator_types = [{kinds}]}} "
        f"ins({source} : {tensor(sizes, type)}) outs({outs[0]}, {outs[1]} : {values}, {places}) {{",
        f"^bb0(%x: {type}, %best: {type}, %place: i32):",
        *body,
        f"}} -> ({values}, {places})",
    ]


def starts(sizes, type):
    """The accumulators before anything is folded."""
    low = "0xFC00" if type == "f16" else "0xFF800000"
    return [
        f"%low = arith.constant {low} : {type}",
        "%far = arith.constant 2147483647 : i32",
        f"%ov = tensor.splat %low : {tensor(sizes, type)}",
        f"%oi = tensor.splat %far : {tensor(sizes, 'i32')}",
    ]


def argmax_text(sizes, dim, type, decide):
    left = [size for loop, size in enumerate(sizes) if loop != dim]
    return kernel(
        "pa; pv; pi",
        load("a", sizes, type),
        starts(left, type),
        generic(sizes, dim, type, decide),
        store("v", left, type),
        store("i", left, "i32"),
    )


def check(values, dim, decide, type="f32"):
    sizes = list(values.shape)
    left = [size for loop, size in enumerate(sizes) if loop != dim]
    actual = run(
        argmax_text(sizes, dim, type, decide),
        pa=values,
        pv=np.zeros(left, numpy_type(type)),
        pi=np.zeros(left, np.int32),
    )
    np.testing.assert_array_equal(actual["pi"], values.argmax(dim))
    np.testing.assert_array_equal(actual["pv"], values.max(dim))


def few_values(*sizes, seed=0):
    """Every value many times over."""
    return np.random.default_rng(seed).integers(-2, 3, sizes).astype(np.float32)


SHAPES = [([1, 1], 1), ([3, 63], 1), ([5, 64], 1), ([2, 1000], 1), ([70, 9], 1), ([130, 33], 0)]


@pytest.mark.parametrize(("sizes", "dim"), [*SHAPES, ([4, 70, 6], 1), ([513], 0)])
@pytest.mark.parametrize("decide", [BETTER, FIRST], ids=["compared", "in_order"])
def test_the_first_of_equal_values_wins(sizes, dim, decide):
    check(few_values(*sizes), dim, decide)


@pytest.mark.parametrize("type", ["f16", "f32"])
def test_random_values(type):
    check(half(7, 321).astype(numpy_type(type)), 1, BETTER, type)


@pytest.mark.parametrize(("sizes", "dim"), SHAPES)
def test_the_first_nan_beats_all_numbers(sizes, dim):
    values = few_values(*sizes, seed=1)
    values.reshape(-1)[np.random.default_rng(2).integers(0, values.size, 5)] = np.nan
    check(values, dim, BETTER)


def test_infinities():
    values = np.full((2, 100), -np.inf, np.float32)
    values[1, 77] = np.inf
    check(values, 1, BETTER)


def test_scalars_from_outside_the_body():
    """The index starts at one argument of the kernel and advances by another."""
    sizes = [3, 200]
    text = kernel(
        "pa; pv; pi; start; by",
        load("a", sizes, "f32"),
        starts([3], "f32"),
        generic(
            sizes,
            1,
            "f32",
            BETTER,
            index=[
                "%scaled = arith.muli %at, %by : index",
                "%moved = arith.addi %scaled, %start : index",
                "%here = arith.index_cast %moved : index to i32",
            ],
        ),
        store("v", [3], "f32"),
        store("i", [3], "i32"),
    )
    values = few_values(*sizes)
    outputs = {"pv": np.zeros(3, np.float32), "pi": np.zeros(3, np.int32)}
    actual = run(text, pa=values, **outputs, start=1000, by=7)
    np.testing.assert_array_equal(actual["pi"], 1000 + 7 * values.argmax(1))


def limited(decide, argument):
    sizes = [3, 200]
    return kernel(
        f"pa; pv; pi; {argument}",
        load("a", sizes, "f32"),
        starts([3], "f32"),
        generic(sizes, 1, "f32", decide),
        store("v", [3], "f32"),
        store("i", [3], "i32"),
    )


@pytest.mark.parametrize("first", [True, False])
def test_outer_condition_decides_ties(first):
    last_or_first = [
        *BETTER[:8],
        "%slot = arith.cmpi slt, %here, %place : i32",
        "%before = arith.xori %slot, %backwards : i1",
        *BETTER[9:],
    ]
    text = limited(last_or_first, "backwards: i1")
    # Indices of no element: the initial value must lose in any case.
    text = text.replace("2147483647", "2147483647" if first else "-1")
    values = few_values(3, 200)
    outputs = {"pv": np.zeros(3, np.float32), "pi": np.zeros(3, np.int32)}
    actual = run(text, pa=values, **outputs, backwards=not first)
    expected = values.argmax(1) if first else 199 - values[:, ::-1].argmax(1)
    np.testing.assert_array_equal(actual["pi"], expected)


def test_outer_limit_is_rejected():
    """An accumulator above the limit would retain values that another one accepts."""
    decide = [
        "%low_enough = arith.cmpf olt, %x, %limit : {type}",
        *BETTER[:-1],
        "%wanted = arith.ori %better, %earlier : i1",
        "%take = arith.andi %wanted, %low_enough : i1",
    ]
    outputs = {"pv": np.zeros(3, np.float32), "pi": np.zeros(3, np.int32)}
    with pytest.raises(KtirError, match="values from outside the body select"):
        run(limited(decide, "limit: f32"), pa=few_values(3, 200), **outputs, limit=1.5)


def streamed_text(rows, columns, step):
    """Tiles of `step` columns, the accumulators carried from one to the next."""
    sizes, values, places = [rows, columns], tensor([rows], "f32"), tensor([rows], "i32")
    tile = tensor([rows, step], "f32")
    box = f"affine_set<(d0, d1) : (d0 >= 0, -d0 + {rows - 1} >= 0, d1 >= 0, -d1 + {step - 1} >= 0)>"
    view, _, _ = load("a", sizes, "f32")
    return kernel(
        "pa; pv; pi",
        view,
        starts([rows], "f32"),
        f"%end = arith.constant {columns} : index",
        f"%step = arith.constant {step} : index",
        "%rv, %ri = scf.for %from = %c0 to %end step %step "
        f"iter_args(%sv = %ov, %si = %oi) -> ({values}, {places}) {{",
        f"%t = ktdp.construct_access_tile %a_view[%c0, %from] {{access_tile_set = {box}}} "
        f": memref<{shape_text(sizes, 'f32')}> -> !ktdp.access_tile<{rows}x{step}xindex>",
        f"%a = ktdp.load %t : <{rows}x{step}xindex> -> {tile}",
        generic(
            [rows, step],
            1,
            "f32",
            BETTER,
            index=[
                "%moved = arith.addi %at, %from : index",
                "%here = arith.index_cast %moved : index to i32",
            ],
            outs=("%sv", "%si"),
        ),
        f"scf.yield %v, %i : {values}, {places}",
        "}",
        store("rv", [rows], "f32", base="pv"),
        store("ri", [rows], "i32", base="pi"),
    )


@pytest.mark.parametrize(("rows", "columns", "step"), [(1, 512, 64), (5, 300, 100), (40, 96, 32)])
def test_tiles_that_stream_past(rows, columns, step):
    values = few_values(rows, columns, seed=3)
    values[0, columns // 2] = np.nan
    actual = run(
        streamed_text(rows, columns, step),
        pa=values,
        pv=np.zeros(rows, np.float32),
        pi=np.zeros(rows, np.int32),
    )
    np.testing.assert_array_equal(actual["pi"], values.argmax(1))
    np.testing.assert_array_equal(actual["pv"], values.max(1))


def two_reductions(body, sizes=(4, 100)):
    rows, source = tensor(sizes[:1], "f32"), tensor(sizes, "f32")
    return kernel(
        "pa; pv; pi",
        load("a", sizes, "f32"),
        load("ov", sizes[:1], "f32", base="pv"),
        load("oi", sizes[:1], "f32", base="pi"),
        "%v, %i = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, "
        "affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], "
        f'iterator_types = ["parallel", "reduction"]}} ins(%a : {source}) '
        f"outs(%ov, %oi : {rows}, {rows}) {{",
        "^bb0(%x: f32, %one: f32, %two: f32):",
        *body,
        f"}} -> ({rows}, {rows})",
        store("v", sizes[:1], "f32"),
        store("i", sizes[:1], "f32"),
    )


def test_independent_results():
    text = two_reductions(
        [
            "%square = arith.mulf %x, %x : f32",
            "%sum = arith.addf %one, %square : f32",
            "%high = arith.maximumf %two, %x : f32",
            "linalg.yield %sum, %high : f32, f32",
        ]
    )
    values = half(4, 100).astype(np.float32)
    start = np.arange(4, dtype=np.float32)
    actual = run(text, pa=values, pv=start, pi=start)
    exact = start + (values.astype(float) ** 2).sum(1)
    np.testing.assert_allclose(actual["pv"], exact, rtol=1e-6)
    np.testing.assert_array_equal(actual["pi"], np.maximum(start, values.max(1)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            [
                "%high = arith.maximumf %one, %x : f32",
                "%scaled = arith.mulf %two, %high : f32",
                "%sum = arith.addf %scaled, %x : f32",
                "linalg.yield %high, %sum : f32, f32",
            ],
            "must combine its outs argument with a value of the element in one op",
        ),
        (
            [
                "%more = arith.cmpf ogt, %x, %one : f32",
                "%less = arith.cmpf olt, %x, %two : f32",
                "%high = arith.select %more, %x, %one : f32",
                "%low = arith.select %less, %x, %two : f32",
                "linalg.yield %high, %low : f32, f32",
            ],
            "reduce the same value",
        ),
        (
            [
                "%twice = arith.addf %x, %x : f32",
                "%more = arith.cmpf ogt, %x, %one : f32",
                "%high = arith.select %more, %twice, %one : f32",
                "%sum = arith.addf %two, %x : f32",
                "linalg.yield %high, %sum : f32, f32",
            ],
            "depends on a value of the element that it does not reduce",
        ),
    ],
)
def test_bodies_that_depend_on_the_reduction_order_are_rejected(body, message):
    outputs = {"pv": np.zeros(4, np.float32), "pi": np.zeros(4, np.float32)}
    with pytest.raises(KtirError, match=message):
        run(two_reductions(body), pa=np.zeros((4, 100), np.float32), **outputs)
