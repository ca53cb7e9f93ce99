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
