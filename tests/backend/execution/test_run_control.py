"""Tests of loops, branches and grids."""

import numpy as np
import pytest
from run_texts import box, half, kernel, load, run, store, tensor, tile, view, zeros

from torch_spyre import ktir
from torch_spyre.backend.program.instructions import Branch
from torch_spyre.errors import KtirError

N = 8
T = tensor([N])
INTEGERS = tensor([N], "i32")


def fill_by_core(ids, count, *, grid, before=()):
    """Return a kernel in which core k (`%k`) writes `ids` to row k."""
    return kernel(
        "py",
        list(before),
        [
            f"%id{position} = arith.index_cast {name} : index to i32"
            for position, name in enumerate(ids)
        ],
        f"%row = tensor.from_elements {', '.join(f'%id{p}' for p in range(len(ids)))} "
        f": {tensor([1, len(ids)], 'i32')}",
        view("v", "py", [count, len(ids)], "i32"),
        tile("t", "v", ["%k", "%c0"], [count, len(ids)], [1, len(ids)], "i32"),
        f"ktdp.store %row, %t : {tensor([1, len(ids)], 'i32')}, <1x{len(ids)}xindex>",
        grid=grid,
    )


def test_the_first_grid_dim_counts_fastest():
    text = fill_by_core(
        ["%x", "%y"],
        32,
        grid=[2, 16],
        before=[
            "%x, %y = ktdp.get_compute_tile_id : index, index",
            "%y2 = %y * %c2 : index",
            "%k = %y2 + %x : index",
        ],
    )
    actual = run(text, py=np.zeros((32, 2), np.int32))["py"]
    np.testing.assert_array_equal(actual[5], [1, 2])
    np.testing.assert_array_equal(actual, [[k % 2, k // 2] for k in range(32)])


def test_a_grid_of_three_dims():
    text = fill_by_core(
        ["%x", "%y", "%z"],
        24,
        grid=[2, 3, 4],
        before=[
            "%x, %y, %z = ktdp.get_compute_tile_id : index, index, index",
            "%z3 = %z * %c3 : index",
            "%zy = %z3 + %y : index",
            "%zy2 = %zy * %c2 : index",
            "%k = %zy2 + %x : index",
        ],
    )
    actual = run(text, py=np.zeros((24, 3), np.int32))["py"]
    np.testing.assert_array_equal(actual, [[k % 2, k // 2 % 3, k // 6] for k in range(24)])


def test_results_of_one_name():
    text = fill_by_core(
        ["%g#0", "%g#1"],
        4,
        grid=[2, 2],
        before=[
            "%g:2 = ktdp.get_compute_tile_id : index, index",
            "%y2 = arith.muli %g#1, %c2 : index",
            "%k = arith.addi %y2, %g#0 : index",
        ],
    )
    actual = run(text, py=np.zeros((4, 2), np.int32))["py"]
    np.testing.assert_array_equal(actual, [[0, 0], [1, 0], [0, 1], [1, 1]])


@pytest.mark.filterwarnings("ignore")
def test_a_single_id_on_a_2d_grid_is_x():
    text = kernel(
        "px; py",
        "%k = ktdp.get_compute_tile_id : index",
        view("xv", "px", [2, N]),
        tile("xt", "xv", ["%k", "%c0"], [2, N], [1, N]),
        f"%x = ktdp.load %xt : <1x{N}xindex> -> tensor<1x{N}xf16>",
        view("v", "py", [4, N]),
        tile("t", "v", ["%k", "%c0"], [4, N], [1, N]),
        f"ktdp.store %x, %t : tensor<1x{N}xf16>, <1x{N}xindex>",
        grid=[2, 2],
    )
    x = half(2, N)
    actual = run(text, px=x, py=zeros(4, N))["py"]
    np.testing.assert_array_equal(actual, np.vstack([x, zeros(2, N)]))


def test_without_a_grid_there_is_one_core():
    text = fill_by_core(["%k"], 2, grid=None, before=["%k = ktdp.get_compute_tile_id : index"])
    actual = run(text, py=np.full((2, 1), 7, np.int32))["py"]
    np.testing.assert_array_equal(actual, [[0], [7]])


def test_cores_that_conflict_in_memory_run_in_order():
    """All cores add 1 to the same element, with the result of sequential execution."""
    text = kernel(
        "py",
        load("x", [N], base="py"),
        f"%one = arith.constant dense<1.0> : {T}",
        f"%y = arith.addf %x, %one : {T}",
        store("y", [N]),
        grid=[8],
    )
    np.testing.assert_array_equal(run(text, py=zeros(N))["py"], np.full(N, 8))


@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [(0, 0, 1), (5, 3, 1), (0, 7, 1), (1, 10, 3), (-4, 4, 2), (0, 1, 100)],
)
@pytest.mark.parametrize("at_run_time", [True, False])
def test_a_loop_counts_from_lower_to_upper(lower, upper, step, at_run_time):
    bounds = dict(lo=lower, hi=upper, st=step)
    constants = [f"%{name} = arith.constant {value} : index" for name, value in bounds.items()]
    text = kernel(
        "py; lo; hi; st" if at_run_time else "py",
        [] if at_run_time else constants,
        f"%start = arith.constant dense<3> : {INTEGERS}",
        f"%y = scf.for %i = %lo to %hi step %st iter_args(%acc = %start) -> ({INTEGERS}) {{",
        "%j = arith.index_cast %i : index to i32",
        f"%many = tensor.splat %j : {INTEGERS}",
        f"%n = arith.addi %acc, %many : {INTEGERS}",
        f"scf.yield %n : {INTEGERS}",
        "}",
        store("y", [N], "i32"),
    )
    given = bounds if at_run_time else {}
    actual = run(text, py=np.zeros(N, np.int32), **given)["py"]
    np.testing.assert_array_equal(actual, np.full(N, 3 + sum(range(lower, upper, step))))


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_that_is_not_positive_is_an_error(step):
    text = kernel(
        "py; st", load("y", [N]), "scf.for %i = %c0 to %c4 step %st {", store("y", [N]), "}"
    )
    with pytest.raises(RuntimeError, match=f"step {step}, and steps must be positive"):
        run(text, py=zeros(N), st=step)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_carried_values_that_are_swapped(trips):
    """(a, b, c) -> (b, c, a), with scalars that do the same."""
    text = kernel(
        "pa; pb; pd; n",
        load("a", [N]),
        load("b", [N]),
        load("d", [N]),
        "%i1 = arith.constant 1 : i32",
        "%i2 = arith.constant 2 : i32",
        "%x, %y, %z, %p, %q = scf.for %i = %c0 to %n step %c1 "
        f"iter_args(%u = %a, %v = %b, %w = %d, %r = %i1, %s = %i2) -> ({T}, {T}, {T}, i32, i32) {{",
        f"scf.yield %v, %w, %u, %s, %r : {T}, {T}, {T}, i32, i32",
        "}",
        "%pf = arith.sitofp %p : i32 to f16",
        f"%ps = tensor.splat %pf : {T}",
        f"%xp = arith.mulf %x, %ps : {T}",
        store("xp", [N], base="pa"),
        store("y", [N], base="pb"),
        store("z", [N], base="pd"),
    )
    a, b, d = (half(N, seed=seed) for seed in range(3))
    actual = run(text, pa=a, pb=b, pd=d, n=trips)
    turned = [a, b, d][trips % 3 :] + [a, b, d][: trips % 3]
    np.testing.assert_array_equal(actual["pa"], turned[0] * (1 + trips % 2))
    np.testing.assert_array_equal(actual["pb"], turned[1])
    np.testing.assert_array_equal(actual["pd"], turned[2])


def test_nested_loops_with_an_unused_result():
    text = kernel(
        "px; py",
        load("x", [N]),
        f"%zero = arith.constant dense<0.0> : {T}",
        f"%y = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %zero) -> {T} {{",
        "%unused, %b = scf.for %j = %c0 to %c2 step %c1 iter_args(%d = %zero, %e = %a) "
        f"-> ({T}, {T}) {{",
        f"%f = arith.addf %e, %x : {T}",
        f"scf.yield %f, %f : {T}, {T}",
        "}",
        f"scf.yield %b : {T}",
        "}",
        store("y", [N]),
    )
    x = np.arange(N, dtype=np.float16)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(N))["py"], 6 * x)


def test_the_init_of_a_loop_is_not_changed():
    text = kernel(
        "px; py; pz",
        load("x", [N]),
        f"%z = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> ({T}) {{",
        f"%b = arith.addf %a, %a : {T}",
        f"scf.yield %b : {T}",
        "}",
        f"%y = arith.addf %x, %z : {T}",
        store("y", [N]),
        store("x", [N], base="pz"),
    )
    x = np.arange(N, dtype=np.float16)
    actual = run(text, px=x, py=zeros(N), pz=zeros(N))
    np.testing.assert_array_equal(actual["py"], 9 * x)
    np.testing.assert_array_equal(actual["pz"], x)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_branches_with_tensors_and_scalars(n):
    text = kernel(
        "px; py; n",
        load("x", [N]),
        "%yes = arith.cmpi eq, %n, %c1 : index",
        f"%s, %k = scf.if %yes -> ({T}, index) {{",
        f"%d = arith.addf %x, %x : {T}",
        f"scf.yield %d, %c3 : {T}, index",
        "} else {",
        "%other = arith.cmpi eq, %n, %c2 : index",
        f"%e = scf.if %other -> ({T}) {{",
        f"%m = arith.mulf %x, %x : {T}",
        f"scf.yield %m : {T}",
        "} else {",
        f"scf.yield %x : {T}",
        "}",
        f"scf.yield %e, %c4 : {T}, index",
        "}",
        f"%y = scf.for %i = %c0 to %k step %c1 iter_args(%a = %s) -> ({T}) {{",
        f"%b = arith.addf %a, %s : {T}",
        f"scf.yield %b : {T}",
        "}",
        store("y", [N]),
    )
    x = np.arange(N, dtype=np.float16)
    expected = [5 * x, 8 * x, 5 * x * x][n]
    np.testing.assert_array_equal(run(text, px=x, py=zeros(N), n=n)["py"], expected)


def test_a_branch_without_results_or_else():
    text = kernel(
        "py; pz; n",
        f"%one = arith.constant dense<1.0> : {T}",
        "%yes = arith.cmpi sgt, %n, %c1 : index",
        "scf.if %yes {",
        store("one", [N], base="py"),
        "}",
        store("one", [N], base="pz"),
    )
    for n in (0, 5):
        actual = run(text, py=zeros(N), pz=zeros(N), n=n)
        np.testing.assert_array_equal(actual["py"], np.full(N, n > 1))
        np.testing.assert_array_equal(actual["pz"], np.ones(N))


def test_a_loop_over_tiles_of_memory():
    text = kernel(
        "px; py; n",
        "%v = ktdp.construct_memory_view %px, sizes: [%n, 8], strides: [8, 1] "
        "{memory_space = #ktdp.memory_space<global>} : memref<?x8xf16>",
        f"%zero = arith.constant dense<0.0> : tensor<1x{N}xf16>",
        f"%y = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (tensor<1x{N}xf16>) {{",
        f"%t = ktdp.construct_access_tile %v[%i, %c0] {{access_tile_set = {box(1, N)}}} "
        f": memref<?x8xf16> -> <1x{N}xindex>",
        f"%x = ktdp.load %t : <1x{N}xindex> -> tensor<1x{N}xf16>",
        f"%b = arith.addf %a, %x : tensor<1x{N}xf16>",
        f"scf.yield %b : tensor<1x{N}xf16>",
        "}",
        store("y", [1, N]),
    )
    x = (np.arange(7 * N) % 11).astype(np.float16).reshape(7, N)
    actual = run(text, px=x, py=zeros(1, N), n=7)["py"]
    np.testing.assert_array_equal(actual[0], x.sum(0))


def test_memory_written_in_one_iteration_is_read_in_the_next():
    text = kernel(
        "py",
        "scf.for %i = %c0 to %c4 step %c1 {",
        load("x", [N], base="py"),
        f"%y = arith.addf %x, %x : {T}",
        store("y", [N]),
        "}",
    )
    x = half(N)
    np.testing.assert_array_equal(run(text, py=x)["py"], 16 * x)


def test_indices_past_32_bits():
    text = kernel(
        "py; n",
        "%big = arith.constant 4294967296 : index",
        "%wide = arith.muli %n, %big : index",
        "%back = arith.divsi %wide, %big : index",
        "%v = arith.index_cast %back : index to i32",
        f"%y = tensor.splat %v : {INTEGERS}",
        store("y", [N], "i32"),
    )
    np.testing.assert_array_equal(run(text, py=np.zeros(N, np.int32), n=5)["py"], np.full(N, 5))


def test_yielding_a_tensor_of_another_size_is_rejected():
    text = kernel(
        "px; py; n",
        load("x", [N]),
        f"%all = arith.constant {N} : index",
        "%m = arith.minsi %n, %all : index",
        f"%s = tensor.extract_slice %x[0] [%m] [1] : {T} to tensor<?xf16>",
        f"%w = tensor.cast %x : {T} to tensor<?xf16>",
        "%r = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %s) -> (tensor<?xf16>) {",
        "scf.yield %w : tensor<?xf16>",
        "}",
        f"%y = tensor.insert_slice %r into %x[0] [%m] [1] : tensor<?xf16> into {T}",
        store("y", [N]),
    )
    with pytest.raises(KtirError, match=r"scf\.for.*yields a tensor of another size"):
        run(text, px=zeros(N), py=zeros(N), n=3)


CHOSEN_SIZE = kernel(
    "px; py; n",
    load("x", [N]),
    "%few = arith.cmpi slt, %n, %c4 : index",
    "%m = scf.if %few -> (index) {",
    "scf.yield %c2 : index",
    "} else {",
    "scf.yield %c4 : index",
    "}",
    f"%s = tensor.extract_slice %x[0] [%m] [1] : {T} to tensor<?xf16>",
    "%t = arith.addf %s, %s : tensor<?xf16>",
    f"%y = tensor.insert_slice %t into %x[0] [%m] [1] : tensor<?xf16> into {T}",
    store("y", [N]),
)


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("scalars", ["at run time", "compiled in"])
def test_a_size_that_a_branch_yields(n, scalars):
    module = ktir.load(CHOSEN_SIZE)
    program = module.compile("f", **({"n": n} if scalars == "compiled in" else {}))
    # A branch with a constant condition is removed.
    assert any(isinstance(actual, Branch) for actual in program.content.code) == (
        scalars == "at run time"
    )
    x = half(N)
    expected = np.where(np.arange(N) < (2 if n < 4 else 4), 2 * x, x)
    np.testing.assert_array_equal(module.run("f", px=x, py=zeros(N), n=n)["py"], expected)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_with_a_constant_condition(taken):
    """Its tensors and scalars, with an `else` and without."""
    text = kernel(
        "px; py",
        load("x", [N]),
        f"%c = arith.constant {str(taken).lower()}",
        f"%t, %i = scf.if %c -> ({T}, index) {{",
        f"%d = arith.addf %x, %x : {T}",
        f"scf.yield %d, %c3 : {T}, index",
        "} else {",
        f"scf.yield %x, %c1 : {T}, index",
        "}",
        "scf.if %c {",
        store("x", [N], base="py"),
        "}",
        view("v", "py", [2 * N]),
        tile("u", "v", [f"%i + {N}"], [2 * N], [1]),
        f"%e = tensor.extract_slice %t[%i] [1] [1] : {T} to tensor<1xf16>",
        "ktdp.store %e, %u : tensor<1xf16>, <1xindex>",
    )
    x = half(N)
    expected = np.zeros(2 * N, np.float16)
    if taken:
        expected[:N] = x
        expected[N + 3] = 2 * x[3]
    else:
        expected[N + 1] = x[1]
    np.testing.assert_array_equal(run(text, px=x, py=zeros(2 * N))["py"], expected)
