"""What the KTIR tests share: texts around the lines under test, and equality of modules."""

from pathlib import Path

import pytest

from torch_spyre import ktir

KERNELS = sorted((Path(__file__).parents[1] / "ktir" / "kernels").glob("*.mlir"))

BOX4X64 = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>"
GLOBAL = "#ktdp.memory_space<global>"


def function(body, arguments="%p: index, %q: index, %n: index", grid=None):
    """A module with one function of these lines."""
    attributes = f" attributes {{grid = {grid}}}" if grid else ""
    return f"module {{\nfunc.func @f({arguments}){attributes} {{\n{body}\nreturn\n}}\n}}\n"


def assert_same(left, right):
    """Two modules have the same ops, attributes, operands and types."""
    assert left.operation.is_structurally_equivalent(right.operation)
    for one, other in zip(left.operation.walk(), right.operation.walk(), strict=True):
        assert type(one) is type(other)
        assert one.result_types == other.result_types


def accepted(body, **options):
    """Loads the lines, checks that they print and read back the same, and returns the text."""
    module = ktir.load(function(body, **options))
    text = str(module)
    again = ktir.load(text)
    assert_same(module, again)
    assert str(again) == text
    return text


def refused(body, match, *, strict=False, **options):
    """Loads the lines, expects a KtirError with a place and this message, and returns it."""
    with pytest.raises(ktir.KtirError, match=match) as caught:
        ktir.load(function(body, **options), strict=strict)
    assert caught.value.place is not None
    assert caught.value.place.source_line in function(body, **options)
    return caught.value


def line_with(text, part):
    """The only line of a text that holds a part, without its indentation."""
    (line,) = (line.strip() for line in text.splitlines() if part in line)
    return line
