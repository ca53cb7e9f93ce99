"""`loc(...)` names the line that an op was compiled from: it is parsed, printed and kept."""

import pytest

from torch_spyre import ktir
from torch_spyre.backend.program.cache import program_cache
from torch_spyre.errors import KtirError
from torch_spyre.ktir.locations import position_of, source_of
from torch_spyre.ktir.syntax.printer import print_module

TEXT = """
#map = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#line = loc("aten.neg.default in layers.0"("model.py":7:0))
module {
  func.func @negate(%a: index, %b: index) attributes {grid = [1]} {
    %zero = arith.constant 0 : index
    %view = ktdp.construct_memory_view %a, sizes: [2, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x64xf16> loc("model.py":7:4)
    %out = ktdp.construct_memory_view %b, sizes: [2, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x64xf16>
    %tile = ktdp.construct_access_tile %view[%zero, %zero] {access_tile_set = #set, access_tile_order = #map} : memref<2x64xf16> -> !ktdp.access_tile<2x64xindex> loc(unknown)
    %x = ktdp.load %tile : <2x64xindex> -> tensor<2x64xf16> loc(#line)
    %y = "arith.negf"(%x) <{fastmath = #arith.fastmath<none>}> : (tensor<2x64xf16>) -> tensor<2x64xf16> loc(fused["a.py":1:2, "b.py":3:4])
    %target = ktdp.construct_access_tile %out[%zero, %zero] {access_tile_set = #set, access_tile_order = #map} : memref<2x64xf16> -> !ktdp.access_tile<2x64xindex>
    ktdp.store %y, %target : tensor<2x64xf16>, <2x64xindex> loc(callsite("f.py":1:1 at "g.py":2:2))
    return
  }
}
"""  # noqa: E501
SOURCES = {
    "ktdp.construct_memory_view": 'loc("model.py":7:4)',
    "ktdp.load": 'loc("aten.neg.default in layers.0"("model.py":7:0))',
    "arith.negf": 'loc(fused["a.py":1:2, "b.py":3:4])',
    "ktdp.store": 'loc(callsite("f.py":1:1 at "g.py":2:2))',
}


def sources(module):
    return {
        operation.name: str(source_of(operation))
        for operation in module.operation.walk()
        if source_of(operation) is not None
    }


def test_sources_are_parsed_and_printed():
    module = ktir.load(TEXT)
    assert sources(module) == SOURCES
    again = ktir.load(str(module))
    assert sources(again) == SOURCES
    assert str(again) == str(module)
    assert str(module).count("#loc") == 2 * len(SOURCES)


def test_every_op_also_has_its_position_in_the_text():
    lines = TEXT.splitlines()
    for operation in ktir.load(TEXT).operation.walk():
        position = position_of(operation)
        if operation.name.startswith("ktdp"):
            line = lines[position.line.data - 1]
            assert line[position.column.data - 1 :].startswith(operation.name)


def test_sources_survive_a_clone():
    module = ktir.load(TEXT)
    clone = module.operation.clone()
    assert print_module(clone) == str(module)


def test_a_text_without_sources_is_printed_without():
    bare = print_module(ktir.load(TEXT).operation, has_sources=False)
    assert "loc(" not in bare
    assert str(ktir.load(bare)) == bare


def test_errors_point_at_the_text_and_not_at_the_source():
    text = TEXT.replace("tensor<2x64xf16>", "tensor<128xf16>")
    with pytest.raises(KtirError, match=r"<text>:11:10: ktdp.load"):
        ktir.load(text, strict=True)


def test_an_unfinished_location_is_an_error():
    with pytest.raises(KtirError, match="<text>:12"):
        ktir.load(TEXT.replace("loc(#line)", "loc("))


def test_other_sources_of_a_kernel_use_the_same_program(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path))
    first = ktir.load(TEXT).compile("negate")
    files = sorted(tmp_path.rglob("*.*"))
    other = ktir.load(TEXT.replace('"model.py":7:0', '"train.py":9:0')).compile("negate")
    assert program_cache() is not None and files
    assert other == first
    assert sorted(tmp_path.rglob("*.*")) == files
