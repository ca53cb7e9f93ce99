"""Tests of kernel arguments: arrays, scalars, fixed buffers, and invalid arguments."""

import numpy as np
import pytest
import torch
from run_texts import box, half, kernel, load, numpy_type, run, store, tensor, tile, view, zeros

from torch_spyre import ktir
from torch_spyre.errors import KtirError, ScratchpadOverflowError

DOUBLE = kernel(
    "px; py", load("x", [4, 8]), "%y = arith.addf %x, %x : tensor<4x8xf16>", store("y", [4, 8])
)


def test_every_array_is_returned_by_name():
    x = half(4, 8)
    actual = run(DOUBLE, px=x, py=zeros(4, 8))
    assert list(actual) == ["px", "py"]
    np.testing.assert_array_equal(actual["px"], x)
    np.testing.assert_array_equal(actual["py"], x + x)


def test_arrays_that_are_passed_are_not_modified():
    x, y = half(4, 8), zeros(4, 8)
    run(DOUBLE, px=x, py=y)
    np.testing.assert_array_equal(y, zeros(4, 8))


def test_names_that_match_nothing_bind_by_position():
    x = half(4, 8)
    actual = run(DOUBLE, arg0=x, arg1=zeros(4, 8))
    np.testing.assert_array_equal(list(actual.values())[1], x + x)


@pytest.mark.parametrize("kind", ["transposed", "reversed", "read-only", "torch", "card"])
def test_arrays_of_any_memory_layout_are_accepted(kind):
    x = half(8, 4).T if kind == "transposed" else half(4, 8)
    if kind == "reversed":
        x = x[::-1, ::-1]
    if kind == "read-only":
        x.flags.writeable = False
    given = x
    if kind in ("torch", "card"):
        given = torch.from_numpy(x).to("spyre" if kind == "card" else "cpu")
    actual = run(DOUBLE, px=given, py=zeros(4, 8))
    np.testing.assert_array_equal(actual["py"], x + x)


@pytest.mark.parametrize("type", ["f16", "f32", "i64", "i1"])
def test_empty_arrays_are_accepted(type):
    text = kernel("px; py", load("x", [0, 4], type), store("x", [0, 4], type, base="py"))
    nothing = zeros(0, 4, dtype=numpy_type(type))
    actual = run(text, px=nothing, py=nothing)["py"]
    assert (actual.shape, actual.dtype) == (nothing.shape, nothing.dtype)


def test_the_first_argument_arrives_as_an_element_index():
    """The address is unspecified, but sticks are aligned to 128 bytes, and arrays to sticks."""
    text = kernel(
        "px; py",
        load("x", [64]),
        "%v = arith.index_cast %px : index to i64",
        "%sticks = arith.constant 64 : i64",
        "%left = arith.remsi %v, %sticks : i64",
        "%y = tensor.splat %left : tensor<2xi64>",
        store("y", [2], "i64"),
    )
    actual = run(text, px=half(64), py=np.ones(2, np.int64))["py"]
    np.testing.assert_array_equal(actual, [0, 0])


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("f16", [1.5, -0.25, 3, np.float16(2.5), np.float32(0.5)]),
        ("f32", [0.1, -1e30, 7, np.float64(0.1)]),
        ("i1", [True, False, 1]),
        ("i8", [5, -128, np.int8(3)]),
        ("i32", [-(2**31), 2**31 - 1, np.int64(9)]),
        ("i64", [-(2**63), 2**63 - 1]),
        ("index", [0, 2**40, -7]),
    ],
)
def test_scalars(type, values):
    text = kernel(
        f"py; s: {type}", f"%y = tensor.splat %s : {tensor([2], type)}", store("y", [2], type)
    )
    for value in values:
        actual = run(text, py=np.zeros(2, numpy_type(type)), s=value)["py"]
        np.testing.assert_array_equal(actual, np.full(2, value, numpy_type(type)))


@pytest.mark.parametrize("value", [np.array(2.5, np.float32), torch.tensor(2.5)])
def test_0d_arrays_are_scalars(value):
    text = kernel("py; s: f32", "%y = tensor.splat %s : tensor<4xf32>", store("y", [4], "f32"))
    actual = run(text, py=np.zeros(4, np.float32), s=value)
    assert list(actual) == ["py"]
    np.testing.assert_array_equal(actual["py"], np.full(4, 2.5))


def test_runtime_arguments():
    declared = "!ktdp.runtime_arg<index, granularity=4, upperbound=64>"
    bare = declared.removeprefix("!ktdp.runtime_arg")
    text = kernel(
        f"py; n: {declared}",
        [
            f"%{kind[0]} = ktdp.runtime_arg_extract {kind} from %n : {bare} -> index"
            for kind in ("value", "granularity", "upperbound")
        ],
        "%y = tensor.from_elements %v, %g, %u : tensor<3xindex>",
        store("y", [3], "index"),
    )
    np.testing.assert_array_equal(run(text, py=np.zeros(3, np.int64), n=12)["py"], [12, 4, 64])


@pytest.mark.parametrize("type", ["f16", "f32", "i32"])
def test_runtime_arguments_of_other_types(type):
    text = kernel(
        f"py; n: !ktdp.runtime_arg<{type}>",
        f"%v = ktdp.runtime_arg_extract value from %n : !ktdp.runtime_arg<{type}> -> {type}",
        f"%y = tensor.splat %v : {tensor([3], type)}",
        store("y", [3], type),
    )
    np.testing.assert_array_equal(run(text, py=np.zeros(3, numpy_type(type)), n=3)["py"], [3] * 3)


# These addresses are constants of the text, not arguments.
FIXED = kernel(
    "",
    [
        [
            f"%at_{name} = arith.constant {address} : index",
            view(name, f"at_{name}", [64]).replace(
                "memory_space<global>", "spyre_memory_space<HBM>"
            ),
            tile(f"{name}_tile", name, ["%c0"], [64], [64]),
        ]
        for name, address in (("A", 1024), ("B", 12288), ("C", 18432))
    ],
    "%a = ktdp.load %A_tile : <64xindex> -> tensor<64xf16>",
    "%b = ktdp.load %B_tile : <64xindex> -> tensor<64xf16>",
    "%c = arith.addf %a, %b : tensor<64xf16>",
    "ktdp.store %c, %C_tile : tensor<64xf16>, <64xindex>",
)


def test_fixed_buffers_are_passed_by_the_names_of_their_views():
    a, b = (np.arange(64) * factor for factor in (1, 3))
    actual = run(FIXED, A=a.astype(np.float16), B=b.astype(np.float16))
    np.testing.assert_array_equal(actual["C"], a + b)


def test_arrays_for_unknown_views_are_rejected():
    with pytest.raises(KtirError, match="f: no argument D; .*fixed addresses are: A, B, C"):
        run(FIXED, A=zeros(64), D=zeros(64))


def test_fixed_buffers_that_are_not_passed_are_zeros():
    np.testing.assert_array_equal(run(FIXED)["C"], np.zeros(64))


def rejects(match, text=DOUBLE, error=KtirError, **arguments):
    with pytest.raises(error, match=match):
        run(text, **arguments)
    # The card stays usable.
    x = half(4, 8)
    np.testing.assert_array_equal(run(DOUBLE, px=x, py=zeros(4, 8))["py"], x + x)


def test_invalid_array_arguments_are_rejected():
    rejects("px is an array of float32.*f16", px=zeros(4, 8, dtype=np.float32), py=zeros(4, 8))
    rejects(r"px has shape \(8, 4\).*\(4, 8\)", px=zeros(8, 4), py=zeros(4, 8))
    rejects("no value for py", px=zeros(4, 8))
    rejects("f: no argument n; its arguments are: px, py", px=zeros(4, 8), py=zeros(4, 8), n=3)
    rejects("px is the base of a memory view: it must be an array", px=3, py=zeros(4, 8))
    rejects("px", px="text", py=zeros(4, 8))
    rejects("px", px=None, py=zeros(4, 8))
    rejects("px", px=[1.0, 2.0], py=zeros(4, 8))
    rejects("px", px=zeros(4, 8).astype(complex), py=zeros(4, 8))
    rejects("px", px=np.array(["a"] * 32).reshape(4, 8), py=zeros(4, 8))


def test_an_extra_array_is_rejected():
    rejects(
        "f: no argument extra; its arguments are: px, py",
        px=zeros(4, 8),
        py=zeros(4, 8),
        extra=zeros(4),
    )


def test_an_unknown_function_is_rejected():
    module = ktir.load(DOUBLE)
    with pytest.raises(ValueError, match="no function 'g'; it has: f"):
        module.run("g", px=zeros(4, 8), py=zeros(4, 8))


def test_invalid_scalar_arguments_are_rejected():
    text = kernel("py; n: i8", "%y = tensor.splat %n : tensor<2xi8>", store("y", [2], "i8"))
    out = np.zeros(2, np.int8)
    rejects("n is a scalar of type i8, which cannot be 1000", text, py=out, n=1000)
    rejects("n is a scalar of type i8, not float", text, py=out, n=1.5)
    rejects("n", text, py=out, n="3")
    rejects("n", text, py=out, n=None)
    rejects("n is a scalar of type i8, not an array", text, py=out, n=zeros(2))


def test_an_unsupported_op_is_named():
    text = kernel("px; py", load("x", [8]), "%y = math.atan %x : tensor<8xf16>", store("y", [8]))
    rejects("math.atan", text, px=zeros(8), py=zeros(8))


def test_a_grid_larger_than_the_card():
    text = kernel("px; py", load("x", [8]), store("x", [8], base="py"), grid=[33])
    rejects("a grid of 33 cores; the card has 32", text, px=zeros(8), py=zeros(8))


def rows_live(first, second, type="f16", constant=False):
    """Return a kernel with two live tensors of this number of rows of 1024 elements."""
    if constant:
        loaded = [
            f"%a = arith.constant dense<1.0> : {tensor([first, 1024], type)}",
            f"%b = arith.constant dense<2.0> : {tensor([second, 1024], type)}",
        ]
    else:
        loaded = [load("a", [first, 1024], type), load("b", [second, 1024], type)]
    return kernel(
        "pa; pb; py",
        loaded,
        f"%x = tensor.extract %a[%c0, %c1] : {tensor([first, 1024], type)}",
        f"%y = tensor.extract %b[%c0, %c1] : {tensor([second, 1024], type)}",
        f"%s = arith.addf %x, %y : {type}",
        f"%r = tensor.splat %s : {tensor([4], type)}",
        store("r", [4], type, base="py"),
        [] if constant else [store("a", [first, 1024], type), store("b", [second, 1024], type)],
    )


def test_the_overflow_error_names_tensors():
    text = rows_live(768, 512)
    with pytest.raises(ScratchpadOverflowError, match=r"%a") as caught:
        run(text, pa=zeros(768, 1024), pb=zeros(512, 1024), py=zeros(4))
    assert isinstance(caught.value, MemoryError)
    assert "%b" in str(caught.value)


def test_constants_use_no_scratchpad():
    text = rows_live(768, 512, constant=True)
    actual = run(text, pa=zeros(1), pb=zeros(1), py=zeros(4))["py"]
    np.testing.assert_array_equal(actual, np.full(4, 3))


def test_iterations_of_a_loop_reuse_the_scratchpad():
    """Each trip has 1.2 MB, four trips 4.8 MB."""
    rows = 600
    text = kernel(
        "px; py",
        "scf.for %i = %c0 to %c4 step %c1 {",
        load("x", [rows, 1024]),
        store("x", [rows, 1024], base="py"),
        "}",
    )
    x = half(rows, 1024)
    np.testing.assert_array_equal(run(text, px=x, py=zeros(rows, 1024))["py"], x)


def test_a_carried_accumulator_and_its_addend_are_live_together():
    size = 1100 * 512
    kind = tensor([size])
    text = kernel(
        "px; py",
        f"%zero = arith.constant dense<0.0> : {kind}",
        f"%y = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero) -> ({kind}) {{",
        load("x", [size]),
        f"%n = arith.addf %acc, %x : {kind}",
        f"scf.yield %n : {kind}",
        "}",
        store("y", [size]),
    )
    with pytest.raises(MemoryError, match="LX scratchpad overflow.*%y 1126400 B, %x 1126400 B"):
        run(text, px=zeros(size), py=zeros(size))


def test_one_array_with_views_of_two_types():
    """Read float16 as 16-bit integers by two views of one argument."""
    text = kernel(
        "px; py",
        load("x", [8]),
        view("bits", "px", [8], "i16"),
        tile("bt", "bits", ["%c0"], [8], [8], "i16"),
        "%b = ktdp.load %bt : <8xindex> -> tensor<8xi16>",
        store("b", [8], "i16", base="py"),
        store("x", [8], base="px"),
    )
    actual = run(text, px=zeros(8), py=np.ones(8, np.int16))["py"]
    np.testing.assert_array_equal(actual, np.zeros(8))


def test_two_functions_in_a_text():
    text = DOUBLE + DOUBLE.replace("@f(", "@g(").replace("arith.addf", "arith.mulf")
    module = ktir.load(text)
    x = np.arange(32, dtype=np.float16).reshape(4, 8) % 7
    np.testing.assert_array_equal(module.run("f", px=x, py=zeros(4, 8))["py"], x + x)
    np.testing.assert_array_equal(module.run("g", px=x, py=zeros(4, 8))["py"], x * x)


def test_scalars_that_sizes_depend_on_may_change_from_call_to_call():
    text = kernel(
        "px; py; n",
        view("v", "px", [16]),
        view("w", "py", [16]),
        *[
            f"%{name} = ktdp.construct_access_tile %{of}[%c0] symbols(%n) {{access_tile_set = "
            "affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0)>} "
            ": memref<16xf16> -> !ktdp.access_tile<?xindex>"
            for name, of in (("t", "v"), ("u", "w"))
        ],
        "%x = ktdp.load %t : <?xindex> -> tensor<?xf16>",
        "ktdp.store %x, %u : tensor<?xf16>, <?xindex>",
    )
    module = ktir.load(text)
    x = half(16)
    for count in (3, 16, 3, 7):
        actual = module.run("f", px=x, py=zeros(16), n=count)["py"]
        np.testing.assert_array_equal(actual, np.where(np.arange(16) < count, x, 0))


def test_an_estimate_needs_the_scalars_that_time_depends_on():
    text = kernel(
        "px; py; n",
        "scf.for %i = %c0 to %n step %c1 {",
        load("x", [16]),
        store("x", [16], base="py"),
        "}",
    )
    module = ktir.load(text)
    with pytest.raises(KtirError, match="the time depends on n"):
        module.estimate("f")
    assert module.estimate("f", n=100).time_us > module.estimate("f", n=1).time_us


def test_an_address_with_an_offset():
    text = kernel(
        "px; py",
        "%later = arith.addi %px, %c4 : index",
        view("v", "later", [8]),
        f"%t = ktdp.construct_access_tile %v[%c0] {{access_tile_set = {box(8)}}} "
        ": memref<8xf16> -> <8xindex>",
        "%y = ktdp.load %t : <8xindex> -> tensor<8xf16>",
        store("y", [8]),
    )
    x = half(10)
    actual = run(text, px=x, py=zeros(8))["py"]
    np.testing.assert_array_equal(actual, np.concatenate([x[4:], [0, 0]]))


@pytest.mark.parametrize("type", ["f32", "i32", "f16"])
def test_addresses_computed_by_several_ops(type):
    """Through a sum with the address second, a cast, and a loop that moves it on."""
    text = kernel(
        "px: i64; py",
        "%base = arith.index_cast %px : i64 to index",
        "%start = arith.addi %c2, %base : index",
        f"%zero = tensor.empty() : {tensor([4], type)}",
        f"%end, %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%at = %start, %last = %zero) "
        f"-> (index, {tensor([4], type)}) {{",
        view("v", "at", [4], type),
        tile("t", "v", ["%c0"], [4], [4], type),
        f"%x = ktdp.load %t : <4xindex> -> {tensor([4], type)}",
        "%next = arith.addi %at, %c4 : index",
        f"scf.yield %next, %x : index, {tensor([4], type)}",
        "}",
        store("y", [4], type),
    )
    x = np.arange(20).astype(numpy_type(type))
    actual = run(text, px=x, py=np.zeros(4, numpy_type(type)))["py"]
    np.testing.assert_array_equal(actual, x[10:14])
