"""Helpers of the KTIR tests: wrap lines in a module, compare modules, expect errors."""

from pathlib import Path

import pytest

from torch_spyre import ktir

KERNELS = sorted((Path(__file__).parents[1] / "ktir" / "kernels").glob("*.mlir"))

BOX4X64 = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>"
GLOBAL = "#ktdp.memory_space<global>"


def function(body, arguments="%p: index, %q: index, %n: index", grid=None):
    """Return the text of a module with one function of these lines."""
    attributes = f" attributes {{grid = {grid}}}" if grid else ""
    return f"module {{\nfunc.func @f({arguments}){attributes} {{\n{body}\nreturn\n}}\n}}\n"


def assert_same(left, right):
    """Assert that two modules have the same ops, attributes, operands and types."""
    assert left.operation.is_structurally_equivalent(right.operation)
    for left_op, right_op in zip(left.operation.walk(), right.operation.walk(), strict=True):
        assert type(left_op) is type(right_op)
        assert left_op.result_types == right_op.result_types


def round_trip(body, **options):
    """Load the lines, assert that the printed text parses to the same module, and return it."""
    module = ktir.load(function(body, **options))
    text = str(module)
    reparsed = ktir.load(text)
    assert_same(module, reparsed)
    assert str(reparsed) == text
    return text


def assert_rejected(body, match, *, strict=False, **options):
    """Load the lines, assert that it raises a KtirError with a location, and return the error."""
    with pytest.raises(ktir.KtirError, match=match) as caught:
        ktir.load(function(body, **options), strict=strict)
    assert caught.value.location is not None
    assert caught.value.location.source_line in function(body, **options)
    return caught.value


def line_with(text, part):
    """Return the only line of a text that contains `part`, without indentation."""
    (line,) = (line.strip() for line in text.splitlines() if part in line)
    return line
