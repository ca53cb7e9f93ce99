"""Pages that are generated from tables of the compiler match the tables."""

from pathlib import Path

import torch

from torch_spyre._inductor import documentation
from torch_spyre.ops.registry import ENTRIES

DOCS = Path(__file__).resolve().parents[2] / "docs"
AGAIN = "run `python -m torch_spyre._inductor.documentation`"


def test_ops_page_matches_the_registry():
    assert (DOCS / "ops.md").read_text() == documentation.ops_page(), AGAIN


def test_table_of_passes_matches_the_pipeline():
    page = (DOCS / "compiler.md").read_text()
    assert documentation.pass_table() in page, AGAIN
    assert documentation.with_pass_table(page) == page, AGAIN


def test_every_name_in_the_registry_is_an_op():
    names = [name.partition(".")[0] for name in ENTRIES]
    assert [name for name in names if not hasattr(torch.ops.aten, name)] == []
