"""Types and attributes of `ktdp`: parsing, verification, printing."""

import pytest
from ktir_texts import assert_rejected, line_with, round_trip

from torch_spyre import ktir


def signature(argument_type):
    return line_with(round_trip("", arguments=f"%a: {argument_type}"), "func.func")


@pytest.mark.parametrize(
    "written",
    [
        "!ktdp.access_tile<2x64xindex>",
        "!ktdp.access_tile<?x64xindex>",
        "!ktdp.access_tile<0xindex>",
        "!ktdp.access_tile<index>",
        "!ktdp.runtime_arg<index>",
        "!ktdp.runtime_arg<i32, granularity=64>",
        "!ktdp.runtime_arg<f16, upperbound=4096>",
        "!ktdp.runtime_arg<index, granularity=64, upperbound=4096>",
        "memref<64xf32, #ktdp.memory_space<ct_local>>",
        "memref<64xf32, #ktdp.memory_space<ct_local, ct_id = 7>>",
        "memref<64xf32, #ktdp.spyre_memory_space<L0, core = 3>>",
        "memref<64xf32, #ktdp.spyre_memory_space<unspecified>>",
    ],
)
def test_a_type_prints_as_written(written):
    assert signature(written) == f"func.func @f(%a: {written}) {{"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        (
            "!ktdp.runtime_arg<i32, upperbound=8, granularity = 2>",
            "!ktdp.runtime_arg<i32, granularity=2, upperbound=8>",
        ),
        (
            "memref<64xf32, #ktdp.spyre_memory_space<HBM>>",
            "memref<64xf32, #ktdp.memory_space<global>>",
        ),
        (
            "memref<64xf32, #ktdp.spyre_memory_space<LX, core = 2>>",
            "memref<64xf32, #ktdp.memory_space<ct_local, ct_id = 2>>",
        ),
        (
            "!ktdp.tile_future<tensor<4xf16>, tensor<4xi32>, affine_set<(g) : (g == 0)>>",
            "!ktdp.tile_future<(tensor<4xf16>, tensor<4xi32>), groups = #set>",
        ),
        (
            "!ktdp.tile_future<tensor<4xf16>, groups = affine_set<(g) : (g == 0)>>",
            "!ktdp.tile_future<(tensor<4xf16>), groups = #set>",
        ),
        (
            "!ktdp.tile_future<(tensor<4xf16>), affine_set<(g) : (g == 0)>>",
            "!ktdp.tile_future<(tensor<4xf16>), groups = #set>",
        ),
    ],
)
def test_an_older_spelling_prints_as_the_current_one(written, printed):
    assert signature(written) == f"func.func @f(%a: {printed}) {{"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("!ktdp.access_tile<4xf32>", "tile element type must be 'index'"),
        ("!ktdp.access_tile<4xtensor<index>>", "tile element type must be 'index'"),
        ("!ktdp.access_tile<-4xindex>", "shape"),
        ("!ktdp.runtime_arg<index, granularity=0>", "granularity must be positive, not 0"),
        ("!ktdp.runtime_arg<index, upperbound=-1>", "upperbound must be positive, not -1"),
        (
            "!ktdp.runtime_arg<index, granularity=2, granularity=4>",
            "granularity is specified twice",
        ),
        ("!ktdp.runtime_arg<tensor<4xf16>>", "index, an integer or a float"),
        ("!ktdp.runtime_arg<index, step=2>", "'granularity', 'upperbound'"),
        ("!ktdp.tile_future<(), groups = affine_set<(g) : (g == 0)>>", "at least one tensor"),
        ("!ktdp.tile_future<(f16), groups = affine_set<(g) : (g == 0)>>", "ranked tensors"),
        ("!ktdp.tile_future<(tensor<*xf16>), affine_set<(g) : (g == 0)>>", "ranked tensors"),
        ("!ktdp.tile_future<(tensor<4xf16>), affine_set<(g)[s] : (g == s)>>", "one dim and no sym"),
        ("!ktdp.tile_future<(tensor<4xf16>), affine_set<(g, h) : (g == h)>>", "one dim and no sym"),
        ("!ktdp.tile_future<(tensor<4xf16>), groups = 4>", "groups must be an affine set"),
        ("!ktdp.unheard_of<4>", "not registered"),
        ("memref<4xf16, #ktdp.memory_space<foo>>", "'ct_local', 'global'"),
        (
            "memref<4xf16, #ktdp.memory_space<global, ct_id = 1>>",
            "ct_id is allowed for ct_local only",
        ),
        ("memref<4xf16, #ktdp.memory_space<ct_local, ct_id = -1>>", "must not be negative"),
        ("memref<4xf16, #ktdp.memory_space<ct_local, core = 1>>", "ct_id"),
        ("memref<4xf16, #ktdp.spyre_memory_space<HBM, core = 2>>", "core is allowed for LX and L0"),
        ("memref<4xf16, #ktdp.spyre_memory_space<LX, core = -2>>", "must not be negative"),
        ("memref<4xf16, #ktdp.spyre_memory_space<L2>>", "'HBM', 'L0', 'LX', 'unspecified'"),
    ],
)
def test_a_malformed_type_is_rejected(written, message):
    assert_rejected("", message, arguments=f"%a: {written}")


def test_argument_types_are_read_from_the_text():
    module = ktir.load("module {\nfunc.func @f(%a: index, %b: f16) {\nreturn\n}\n}\n")
    assert [str(argument.type) for argument in module.functions["f"].arguments] == ["index", "f16"]
