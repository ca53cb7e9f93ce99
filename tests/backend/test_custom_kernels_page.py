"""The page of custom kernels has the kernel of the example, and the current table of ops."""

import os
import re
from pathlib import Path

import pytest

from torch_spyre import ktir
from torch_spyre.backend.documentation import ops_table, supported_ops

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "custom-kernels.md"


def test_the_page_has_the_current_table_of_ops():
    """Run with ACCEPT=1 to write the table into the page."""
    begin, end = "<!-- begin ops -->\n", "<!-- end ops -->\n"
    head, _, remainder = PAGE.read_text(encoding="utf-8").partition(begin)
    written, _, tail = remainder.partition(end)
    expected = f"\n{ops_table()}\n"
    if os.environ.get("ACCEPT") == "1":
        PAGE.write_text(f"{head}{begin}{expected}{end}{tail}", encoding="utf-8")
        return
    assert written == expected, f"run ACCEPT=1 pytest {Path(__file__).name}"


def test_the_page_explains_the_kernel_of_the_example():
    kernel = re.search(r"^```mlir\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    assert kernel in (ROOT / "examples" / "custom_kernel.py").read_text()
    ktir.load(kernel).compile("scale")


def test_every_op_of_the_shipped_kernels_is_in_the_table():
    used = {
        operation.name
        for path in sorted((ROOT / "examples" / "ktir").glob("*.mlir"))
        for operation in ktir.load(path).operation.walk()
    }
    assert used - {"builtin.module", "ktdp.region_terminator"} <= set(supported_ops())


@pytest.mark.parametrize("op", ["scf.while", "memref.load", "linalg.pooling_nchw_max"])
def test_ops_without_a_lowering_are_not_in_the_table(op):
    assert op not in supported_ops()
