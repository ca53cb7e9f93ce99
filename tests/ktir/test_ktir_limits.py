"""Texts that cost much or wrap silently are refused early, with a KtirError."""

import time

import pytest
import torch  # noqa: F401  (loads the libraries that _C needs)
from ktir_texts import function

from torch_spyre import _C, ktir
from torch_spyre.backend.lowering.context import MAX_ADDRESS
from torch_spyre.errors import KtirError, SetError


@pytest.mark.parametrize("value", [2**65, 2**63, -(2**63) - 1])
def test_index_constants_beyond_64_bits_are_rejected(value):
    with pytest.raises(KtirError, match="does not fit in an index"):
        ktir.load(function(f"%c = arith.constant {value} : index"))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_index_constants_of_64_bits_are_accepted(value):
    assert f"arith.constant {value} : index" in str(
        ktir.load(function(f"%c = arith.constant {value} : index"))
    )


@pytest.mark.parametrize(
    "text",
    [
        'func.func @"a\\00b"() { return }',
        'func.func @f() attributes {note = "a\\00b"} { return }',
        'func.func @f() { return } loc("a\\00b":1:1)',
    ],
)
def test_strings_with_the_character_0_are_rejected(text):
    with pytest.raises(KtirError, match="a string with the character 0"):
        ktir.load(text)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    "form", ["{} : {}", "dense<{}> : tensor<4x{}>", "dense<[{}]> : tensor<1x{}>"]
)
def test_integer_constants_beyond_their_width_are_rejected(bits, form):
    for value in (2**bits, -(2 ** (bits - 1)) - 1):
        with pytest.raises(KtirError, match="out of range"):
            ktir.load(function("%c = arith.constant " + form.format(value, f"i{bits}")))


def triangle(size):
    shape = f"{size}x{size}"
    return function(
        "%c0 = arith.constant 0 : index\n"
        f"%v = ktdp.construct_memory_view %p, sizes: [{size}, {size}], strides: [{size}, 1] "
        f"{{memory_space = #ktdp.memory_space<global>}} : memref<{shape}xf16>\n"
        "%t = ktdp.construct_access_tile %v[%c0, %c0] {access_tile_set = affine_set<(i, j) : "
        f"(i >= 0, -i + {size - 1} >= 0, j >= 0, i - j >= 0)>}} : memref<{shape}xf16> "
        f"-> !ktdp.access_tile<{shape}xindex>\n"
        f"%x = ktdp.load %t : <{shape}xindex> -> tensor<{shape}xf16>\n"
        f"ktdp.store %x, %t : tensor<{shape}xf16>, <{shape}xindex>"
    )


@pytest.mark.parametrize("size", [4001, 16001, 1_000_001])
def test_large_sets_are_counted_before_they_are_enumerated(size):
    start = time.process_time()
    with pytest.raises(KtirError, match="limit"):
        ktir.load(triangle(size)).compile("f")
    assert time.process_time() - start < 10


def test_an_invalid_set_is_an_invalid_text():
    assert issubclass(SetError, KtirError)


@pytest.mark.parametrize(
    "constant",
    ["dense<[]> : tensor<0xf16>", "dense<1.0> : tensor<0x4xf16>", "dense<> : tensor<0xi32>"],
)
def test_constants_without_elements_compile(constant):
    module = ktir.load(function(f"%c = arith.constant {constant}"))
    module.compile("f")
    assert str(ktir.load(str(module))) == str(module)


def test_estimates_of_programs_that_cannot_run_raise_a_ktir_error():
    text = function(
        "%c0 = arith.constant 0 : index\n%c8 = arith.constant 8 : index\n"
        "scf.for %i = %c0 to %c8 step %c0 {\n}",
        arguments="",
    )
    with pytest.raises(KtirError, match="step"):
        ktir.load(text).estimate("f")


def copy_at(address):
    """Return a kernel that copies 64 elements at a fixed address to themselves."""
    return function(
        f"%c0 = arith.constant 0 : index\n%address = arith.constant {address} : index\n"
        "%v = ktdp.construct_memory_view %address, sizes: [64], strides: [1] "
        "{memory_space = #ktdp.memory_space<global>} : memref<64xf16>\n"
        "%t = ktdp.construct_access_tile %v[%c0] {access_tile_set = affine_set<(i) : "
        "(i >= 0, -i + 63 >= 0)>} : memref<64xf16> -> !ktdp.access_tile<64xindex>\n"
        "%x = ktdp.load %t : <64xindex> -> tensor<64xf16>\n"
        "ktdp.store %x, %t : tensor<64xf16>, <64xindex>",
        arguments="",
    )


LAST = MAX_ADDRESS - 64


@pytest.mark.parametrize("address", [2**63 - 1, 2**62, LAST + 1])
def test_fixed_addresses_beyond_the_largest_are_rejected(address):
    with pytest.raises(KtirError, match=f"a view at element {address} ends at element") as caught:
        ktir.load(copy_at(address)).compile("f")
    assert caught.value.location is not None


def test_programs_with_the_largest_fixed_address_can_be_read():
    _C.load_program(ktir.load(copy_at(LAST)).compile("f").file, 0)
