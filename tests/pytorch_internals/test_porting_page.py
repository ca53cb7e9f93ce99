"""The tables of docs/porting-to-a-new-pytorch.md are those of the records."""

import os
from pathlib import Path

import pytest

from torch_spyre.pytorch_internals.documentation import patches_table, uses_table

PAGE = Path(__file__).parents[2] / "docs" / "porting-to-a-new-pytorch.md"


@pytest.mark.parametrize(
    ("name", "table"), [("patches", patches_table), ("uses", uses_table)], ids=["patches", "uses"]
)
def test_the_page_has_the_current_table(name, table):
    """Run with ACCEPT=1 to write the tables into the page."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    text = PAGE.read_text(encoding="utf-8")
    head, _, remainder = text.partition(begin)
    written, _, tail = remainder.partition(end)
    expected = f"\n{table()}\n"
    if os.environ.get("ACCEPT") == "1":
        PAGE.write_text(f"{head}{begin}{expected}{end}{tail}", encoding="utf-8")
        return
    assert written == expected, f"run ACCEPT=1 pytest {Path(__file__).name}"
