"""Fuzzing of the parser: a mutated text loads or raises a KtirError with a location."""

import random
import warnings

import pytest
from ktir_texts import KERNELS, function

from torch_spyre import ktir

TOKENS = (
    "%", "#", "!", "<", ">", "(", ")", "[", "]", "{", "}", ":", ",", "=", "->", "^bb0", "-1", "0",
    "?", "x", "99999999999999999999", "0x", "\"", "affine_set", "tensor", "memref<*xf16>", "index",
    "f16", "d0", "loc", "dense<", "none", "true", "%p", "#set", "//", "\n", "\x00", "é", "unit",
    "-", "mod 0", "* %zero", "tensor<4xf16>", "ktdp.load", "return", "scf.yield", "module {",
)  # fmt: skip


def mutate(text, rng):
    """Return the text with one to four edits of characters, tokens or lines."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice((1, 1, 1, 2, 5, 40)))
        match rng.randrange(6):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + chr(rng.randrange(32, 127)) + text[start:]
            case 2:
                text = text[:start] + rng.choice(TOKENS) + text[end:]
            case 3:
                text = text[:start] + text[start:end] * 2 + text[end:]
            case 4:
                lines = text.split("\n")
                first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[first], lines[second] = lines[second], lines[first]
                text = "\n".join(lines)
            case 5:
                digits = [position for position, char in enumerate(text) if char.isdigit()]
                position = rng.choice(digits or [0])
                text = (
                    text[:position] + str(rng.choice((0, 1, 7, 64, 10**6))) + text[position + 1 :]
                )
    return text + "\n"


def load_quietly(text):
    """Return whether the text loads; assert a round trip, or an error with a location."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ktir.load(text)
            printed = str(module)
            assert str(ktir.load(printed)) == printed
    except ktir.KtirError as error:
        assert error.location is not None, str(error)
        assert "\n" in str(error)
        return False
    return True


def check_mutations(text, seed, count):
    rng = random.Random(seed)
    loaded = sum(load_quietly(mutate(text, rng)) for _ in range(count))
    assert loaded < count / 2


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_mutated_kernel_raises_only_ktir_errors(path):
    check_mutations(path.read_text(), path.stem, 15)


SNIPPETS = {
    "view": "%v = ktdp.construct_memory_view %p, sizes: [4, %n], strides: [%n, 1] "
    "{coordinate_set = affine_set<(d0, d1)[s0] : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, "
    "-d1 + s0 - 1 >= 0)>, "
    "memory_space = #ktdp.memory_space<ct_local, ct_id = 3>} : memref<4x?xf16>",
    "tile": "%v = tensor.empty() : tensor<4x8xf16>\n"
    "%t = ktdp.construct_access_tile %v[%q * 2, (%n + 1) mod 4] {access_tile_set = "
    "affine_set<(d0, d1) : (d0 >= 0, d0 <= 1, d1 >= 0, d1 <= 3)>} : tensor<4x8xf16> -> "
    "<2x4xindex>\n%x = ktdp.load %t : <2x4xindex> -> tensor<2x4xf16>",
    "indirect": "%v = ktdp.construct_memory_view %p, sizes: [4], strides: [1] {} : memref<4xi32>\n"
    "%t = ktdp.construct_indirect_access_tile intermediate_variables(%r) %v[ind(%v[%r + %n])] "
    "{variables_space_set = affine_set<(d0) : (d0 >= 0, d0 <= 3)>} : memref<4xi32>, memref<4xi32> "
    "-> <4xindex>",
    "communication": "%x = arith.constant dense<1.5> : tensor<4xf16>\n"
    "%f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i) : (i >= 0)> -> "
    "<(tensor<4xf16>), groups = affine_set<(g) : (g == 0)>> {\n^bb0(%g: index):\n"
    "ktdp.yield_partial %x : tensor<4xf16>\n}\n%y = ktdp.inter_tile_gather(%f) "
    "consumer_tiles_per_group = affine_set<(i) : (i >= 0)>, gather_dimensions = [0] : "
    "<(tensor<4xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<4xf16>",
    "reduce": "%x = arith.constant dense<[0x3C00, -2.5]> : tensor<2xf16>\n"
    "%z = arith.constant dense<0> : tensor<i32>\n%i = tensor.from_elements %p : tensor<1xindex>\n"
    "%c = arith.constant dense<0.0> : tensor<f16>\n%y = linalg.reduce { arith.addf } "
    "ins(%x : tensor<2xf16>) outs(%c : tensor<f16>) dimensions = [0]",
    "loop": "%c = arith.constant 1.0 : f16\n%y = scf.for %k = %p to %q step %n iter_args(%a = %c) "
    "-> f16 {\n%b = spyreop.softplus %a beta 1.0 threshold 20.0 : f16\nscf.yield %b : f16\n}",
    "generic": "%e = tensor.empty() : tensor<4xf16>\n%y = linalg.generic {indexing_maps = "
    '[affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%e : tensor<4xf16>) {\n'
    "^bb0(%o: f16):\n%s = arith.addf %o, %o : f16\nlinalg.yield %s : f16\n} -> tensor<4xf16>",
    "runtime": "%m = %p * %q : index\n%b = arith.cmpi slt, %m, %n : index\n"
    "%s = arith.select %b, %m, %n : index\n%h = arith.constant 0xFC00 : f16",
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", SNIPPETS)
def test_a_mutated_snippet_raises_only_ktir_errors(name):
    assert load_quietly(function(SNIPPETS[name]))
    check_mutations(function(SNIPPETS[name]), name, 400)
