"""Tests of kernels that cannot be compiled: errors state the source location and a solution."""

import pytest
from compiling import compiled

from torch_spyre import ktir
from torch_spyre.backend import kernels
from torch_spyre.errors import KtirError, ScratchpadOverflowError

BOX = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>"
VIEW = "ktdp.construct_memory_view %p, sizes: [4, 64], strides: [64, 1] : memref<4x64xf16>"
TILE = f"{{access_tile_set = {BOX}}} : memref<4x64xf16> -> <4x64xindex>"


def kernel(body, arguments="%p: index, %n: index", attributes=""):
    lines = ["%c0 = arith.constant 0 : index", *body]
    return "\n".join([f"func.func @f({arguments}){attributes} {{", *lines, "return", "}", ""])


LOADED = [
    f"%v = {VIEW}",
    f"%t = ktdp.construct_access_tile %v[%c0, %c0] {TILE}",
    "%x = ktdp.load %t : <4x64xindex> -> tensor<4x64xf16>",
]


def rejects(body, match, *, at, **options):
    text = kernel(body, **options)
    with pytest.raises(KtirError, match=match) as caught:
        compiled(text)
    location = caught.value.location
    assert location is not None
    assert at in location.source_line
    assert at in str(caught.value)
    return str(caught.value)


def test_an_op_without_an_instruction():
    body = [*LOADED, "%y = math.atan %x : tensor<4x64xf16>"]
    rejects(body, "math.atan: the card has no instruction for this op", at="math.atan")


def test_a_size_without_an_upper_bound():
    body = ["%e = tensor.empty(%n) : tensor<?xf16>"]
    message = rejects(body, "a size is known only at run time", at="tensor.empty")
    for way_out in ("compile()", "arith.minsi", "upperbound"):
        assert way_out in message


@pytest.mark.parametrize(
    "bounded",
    [
        ["%c9 = arith.constant 9 : index", "%m = arith.minsi %n, %c9 : index"],
        ["%c9 = arith.constant 9 : index", "%m = arith.remui %q, %c9 : index"],
    ],
)
def test_a_size_with_an_upper_bound_is_accepted(bounded):
    body = [
        "%q = ktdp.get_compute_tile_id : index",
        *bounded,
        "%e = tensor.empty(%m) : tensor<?xf16>",
    ]
    compiled(kernel(body))


def test_a_size_passed_to_compile_is_accepted():
    text = kernel(["%e = tensor.empty(%n) : tensor<?xf16>"])
    compiled(text, known={"n": 64})
    with pytest.raises(KtirError, match="a size of -3"):
        compiled(text, known={"n": -3})


def test_a_size_beyond_all_memory():
    with pytest.raises(KtirError, match="a size of 4611686018427387904"):
        compiled(kernel(["%e = tensor.empty(%n) : tensor<?xf16>"]), known={"n": 1 << 62})


def test_a_tensor_larger_than_the_scratchpad():
    body = [
        "%z = arith.constant 0.0 : f16",
        "%e = tensor.empty() : tensor<100000x100000xf16>",
        "%f = linalg.fill ins(%z : f16) outs(%e : tensor<100000x100000xf16>) "
        "-> tensor<100000x100000xf16>",
        "%k = tensor.insert %z into %f[%c0, %c0] : tensor<100000x100000xf16>",
        "%g = tensor.extract %k[%c0, %c0] : tensor<100000x100000xf16>",
    ]
    with pytest.raises(ScratchpadOverflowError, match="%k"):
        compiled(kernel(body))


def test_a_run_compiles_scalars_in_if_their_bounds_exceed_the_scratchpad():
    body = [
        "%most = arith.constant 100000000 : index",
        "%m = arith.minsi %n, %most : index",
        "%v = ktdp.construct_memory_view %p, sizes: [8], strides: [1] : memref<8xf16>",
        "%t = ktdp.construct_access_tile %v[%c0] symbols(%m) {access_tile_set = affine_set<"
        "(d0)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0)>} : memref<8xf16> -> <?xindex>",
        "%x = ktdp.load %t : <?xindex> -> tensor<?xf16>",
        "ktdp.store %x, %t : tensor<?xf16>, <?xindex>",
    ]
    module = ktir.load(kernel(body))
    with pytest.raises(ScratchpadOverflowError):
        module.compile("f")
    program = kernels._program_for_run(module, "f", {"n": 5}, frozenset({"p"}), checks_bounds=False)
    assert program.content.scratchpad_bytes == 128


def test_a_grid_larger_than_the_card():
    message = rejects(
        [],
        "a grid of 64 cores; the card has 32",
        at="func.func",
        attributes=" attributes {grid = [64]}",
    )
    assert "func.func" in message


def test_a_grid_of_the_whole_card_is_accepted():
    compiled(kernel([], attributes=" attributes {grid = [4, 8]}"))


@pytest.mark.filterwarnings("ignore::torch_spyre.errors.KtirWarning")
def test_a_tile_and_a_tensor_of_different_counts():
    body = [*LOADED[:2], "%x = ktdp.load %t : <4x64xindex> -> tensor<4x32xf16>"]
    with pytest.raises(KtirError, match="differs|256 points and a tensor of 128 elements"):
        compiled(kernel(body))


@pytest.mark.filterwarnings("ignore::torch_spyre.errors.KtirWarning")
def test_a_tile_whose_set_has_other_points_than_the_tensor():
    smaller = BOX.replace("-d1 + 63", "-d1 + 31")
    body = [
        LOADED[0],
        f"%t = ktdp.construct_access_tile %v[%c0, %c0] {TILE.replace(BOX, smaller)}",
        "%x = ktdp.load %t : <4x64xindex> -> tensor<4x64xf16>",
    ]
    rejects(body, "a tile of 128 points and a tensor of 256 elements", at="ktdp.load")
    stored = [
        *LOADED,
        body[1].replace("%t", "%u"),
        "ktdp.store %x, %u : tensor<4x64xf16>, <4x64xindex>",
    ]
    rejects(stored, "a tensor of 256 elements and a tile of 128 points", at="ktdp.store")


def test_an_order_that_is_no_permutation():
    ordered = TILE.replace("{", "{access_tile_order = affine_map<(d0, d1) -> (d0, d0)>, ")
    body = [LOADED[0], f"%t = ktdp.construct_access_tile %v[%c0, %c0] {ordered}"]
    with pytest.raises(KtirError, match="permutation") as caught:
        compiled(kernel(body))
    assert "construct_access_tile" in str(caught.value)


def test_a_tensor_of_another_type_than_its_view():
    body = [*LOADED[:2], "%x = ktdp.load %t : <4x64xindex> -> tensor<4x64xf32>"]
    rejects(body, "the view holds f16, the tensor f32", at="ktdp.load")


@pytest.mark.parametrize(
    "line",
    [
        "%r = arith.addf %a, %b : tensor<?xf16>",
        "%r = linalg.add ins(%a, %b : tensor<?xf16>, tensor<?xf16>) outs(%a : tensor<?xf16>) "
        "-> tensor<?xf16>",
    ],
)
def test_operands_whose_sizes_turn_out_to_differ(line):
    body = [
        "%c3 = arith.constant 3 : index",
        "%c4 = arith.constant 4 : index",
        "%a = tensor.empty(%c3) : tensor<?xf16>",
        "%b = tensor.empty(%c4) : tensor<?xf16>",
        line,
    ]
    at = line.split()[2]
    rejects(body, "operands of 3 and 4 elements in one dim", at=at)


def test_elements_that_the_card_does_not_have():
    rejects(["%a = arith.constant 1.0 : f64"], "no elements of type f64", at="arith.constant")


def test_a_core_outside_the_grid():
    body = [
        "%v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] "
        "{memory_space = #ktdp.memory_space<ct_local, ct_id = 7>} : memref<64xf16>"
    ]
    rejects(body, "core 7 of a grid of 1", at="construct_memory_view")


def test_a_store_into_a_tensor():
    body = [
        *LOADED,
        f"%u = ktdp.construct_access_tile %x[%c0, %c0] {{access_tile_set = {BOX}}} "
        ": tensor<4x64xf16> -> <4x64xindex>",
        "ktdp.store %x, %u : tensor<4x64xf16>, <4x64xindex>",
    ]
    rejects(body, "tensors are values and cannot be stored to", at="ktdp.store")


def test_a_slice_outside_its_tensor():
    body = [
        *LOADED,
        "%k = arith.constant 60 : index",
        "%y = tensor.extract_slice %x[0, %k] [4, 8] [1, 1] : tensor<4x64xf16> to tensor<4x8xf16>",
    ]
    rejects(body, "a slice from 60 to 67 of 64 elements", at="tensor.extract_slice")


def test_branches_that_yield_different_sizes():
    body = [
        "%c1 = arith.constant 1 : index",
        "%c8 = arith.constant 8 : index",
        "%a = tensor.empty(%c1) : tensor<?xf16>",
        "%b = tensor.empty(%c8) : tensor<?xf16>",
        "%t = arith.cmpi slt, %n, %c1 : index",
        "%r = scf.if %t -> (tensor<?xf16>) {\nscf.yield %a : tensor<?xf16>\n} else {",
        "scf.yield %b : tensor<?xf16>\n}",
    ]
    rejects(body, "must yield tensors of the same sizes", at="scf.if")


@pytest.mark.parametrize("value", ["64", None, 2.5, float("nan"), [1]])
def test_a_scalar_of_another_type_is_rejected(value):
    with pytest.raises(KtirError, match="n is a scalar of type i64, not"):
        compiled(kernel([]), known={"n": value})


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1])
def test_a_scalar_that_overflows_its_type_is_rejected(value):
    with pytest.raises(KtirError, match="n is a scalar of type i64, which cannot be"):
        compiled(kernel([]), known={"n": value})


def test_scalars_may_be_signed_or_unsigned():
    for value in ((1 << 64) - 1, -1, -(1 << 63), True):
        compiled(kernel([]), known={"n": value})
    compiled(kernel([], arguments="%s: f16"), known={"s": 10**400})


@pytest.mark.parametrize("value", ["64", None, [1]])
def test_a_float_argument_of_another_type_is_rejected(value):
    with pytest.raises(KtirError, match="s is a scalar of type f16, not"):
        compiled(kernel([], arguments="%s: f16"), known={"s": value})


def test_an_array_cannot_be_compiled_in():
    with pytest.raises(KtirError, match="p is an array"):
        ktir.load(kernel(LOADED)).compile("f", p=3)


def test_unknown_argument_and_function_names_are_rejected():
    module = ktir.load(kernel(LOADED))
    with pytest.raises(KtirError, match="f: no argument m; its arguments are: p, n"):
        module.compile("f", m=3)
    with pytest.raises(KtirError, match="no function 'g'; it has: f"):
        module.compile("g")
