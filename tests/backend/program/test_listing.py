"""Programs as text: the whole text of a few kernels, and that any program can be listed."""

from pathlib import Path

import pytest
from compiling import compiled
from hypothesis import given
from random_programs import contents

from torch_spyre.backend.program.listing import listing

KERNELS = Path(__file__).parents[2] / "ktir" / "kernels"
EXPECTED = sorted((Path(__file__).parent / "expected").glob("*.listing"))


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_the_listing_of_a_kernel(path):
    """To accept a change: spyre ktir compile KERNEL --listing > tests/backend/expected/..."""
    kernel, _, function = path.stem.partition(".")
    content = compiled((KERNELS / f"{kernel}.mlir").read_text(), function=function)
    assert listing(content) == path.read_text()


def test_there_are_listings_to_compare_with():
    assert len(EXPECTED) >= 6


@given(contents())
def test_every_program_can_be_listed(content):
    """Programs from files may hold anything that can be decoded."""
    text = listing(content)
    for number in range(len(content.code)):
        assert any(line.split()[:1] == [str(number)] for line in text.splitlines())


def test_loops_are_indented_and_constants_are_numbers():
    text = """
func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %n step %c3 iter_args(%a = %c0) -> (index) {
    %b = arith.muli %a, %i : index
    %c = arith.addi %b, %c3 : index
    scf.yield %c : index
  }
  return
}
"""
    lines = [line.partition(";")[0].strip() for line in listing(compiled(text)).splitlines()]
    assert lines[-6:] == [
        "0  r8 = 0",
        "1  for r7 = 0 to %n step 3",
        "2    r9 = muli r8, r7 : i64",
        "3    r10 = addi r9, 3 : i64",
        "4    r8 = r10",
        "5  next 1",
    ]
