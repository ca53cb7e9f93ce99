import pytest

from torch_spyre.backend.program.origins import Origins

LINES = (
    '#loc = loc("aten.neg.default in layers.0"("model.py":7:0))',
    '#loc1 = loc("model.py":9:4)',
    "    %x = ktdp.load %tile : <2x64xindex> -> tensor<2x64xf16> loc(#loc)",
    "    %y = arith.negf %x : tensor<2x64xf16> loc(#loc1)",
    '    %z = arith.negf %y : tensor<2x64xf16> loc("aten.neg")',
    "    %w = arith.negf %z : tensor<2x64xf16> loc(unknown)",
    '    %v = arith.negf %w : tensor<2x64xf16> loc(fused["a.py":1:2, "b.py":3:4])',
    "    %u = arith.negf %v : tensor<2x64xf16>",
)


@pytest.mark.parametrize(
    ("line", "origin"),
    [
        (3, "aten.neg.default in layers.0, model.py:7"),
        (4, "model.py:9"),
        (5, "aten.neg"),
        (6, ""),
        (7, 'fused["a.py":1:2, "b.py":3:4]'),
        (8, ""),
        (0, ""),
        (99, ""),
    ],
)
def test_an_origin_is_the_location_at_the_end_of_a_line(line, origin):
    assert Origins(LINES).of_line(line) == origin


def test_the_origin_of_an_op_with_regions_follows_the_last_of_them():
    lines = (
        '#loc = loc("inner.py":1:0)',
        '#loc1 = loc("outer.py":2:0)',
        "    %r = linalg.reduce ins(%x:tensor<5x64xf16>) outs(%y:tensor<5xf16>) dimensions = [1]",
        "    (%a: f16, %b: f16) {",
        "      %c = arith.addf %a, %b : f16 loc(#loc)",
        "    } loc(#loc1)",
        "    %g = linalg.generic {iterator_types = []} ins(%x : f16) outs(%y : f16) {",
        "    ^bb0(%d: f16, %e: f16):",
        "      linalg.yield %d : f16 loc(#loc)",
        "    } -> tensor<5x64xf16> loc(#loc1)",
        "    scf.if %condition {",
        "      ktdp.store %z, %t : tensor<5xf16>, <5xindex> loc(#loc)",
        "    } else {",
        "    }",
        "    %h = linalg.generic {",
        "  }",
    )
    origins = Origins(lines)
    places = [origins.of_line(line) for line in (3, 5, 7, 9, 11, 12, 15)]
    assert places == ["outer.py:2", "inner.py:1", "outer.py:2", "inner.py:1", "", "inner.py:1", ""]
