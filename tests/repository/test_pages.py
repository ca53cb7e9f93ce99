"""Pages name files that exist, link to pages that exist, and list what the code has."""

import re
from pathlib import Path

import pytest

from torch_spyre.testing import formats

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# A path from the root of the repository, without wildcards and placeholders.
PATH = re.compile(
    r"`((?:torch_spyre|tests|examples|benchmarks|scripts|requirements|docs)/[\w./-]*)`"
)
TOCTREE = re.compile(r"^```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", re.MULTILINE | re.DOTALL)
# Folders that a build makes.
GENERATED = ("docs/_build",)
STALE = (
    "ops run on the cpu for now",
    "pytorch's ops. they run on the cpu",
    "no kernels yet",
    "kernels will be written",
)


def prose(page):
    """Return the text of a page without its blocks of code."""
    return CODE.sub("", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = {target for target in LINK.findall(prose(page)) if not target.startswith("http")}
    assert [target for target in sorted(targets) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_the_text_exist(page):
    paths = {path for path in PATH.findall(prose(page)) if not path.startswith(GENERATED)}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_describes_the_time_before_kernels(page):
    text = " ".join(page.read_text().lower().split())
    assert [sentence for sentence in STALE if sentence in text] == []


def test_every_page_is_in_the_index_once():
    index = (DOCS / "index.md").read_text()
    entries = [entry for toctree in TOCTREE.findall(index) for entry in toctree.split()]
    assert sorted(["index", *entries]) == sorted(page.stem for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("name", ["contract", "numbers"])
def test_the_tables_of_dtypes_are_complete(name):
    rows = [line for line in (DOCS / f"{name}.md").read_text().splitlines() if line[:2] == "| "]
    first_cells = ", ".join(row.split("|")[1].strip() for row in rows)
    listed = set(re.split(r"[,\s]+", first_cells))
    dtypes = {str(dtype).removeprefix("torch.") for dtype in formats.DEVICE_FORMATS}
    assert dtypes - listed == set()


def test_numbers_page_names_the_format_of_each_dtype():
    page = (DOCS / "numbers.md").read_text()
    for dtype, device_format in formats.DEVICE_FORMATS.items():
        name = str(dtype).removeprefix("torch.")
        row = rf"^\| {name} \| {device_format.name}\b.*\| {device_format.elements_per_stick} \|"
        assert re.search(row, page, re.MULTILINE), name


def test_the_layout_of_the_code_names_every_package():
    page = (DOCS / "layout-of-the-code.md").read_text()
    packages = [
        *(ROOT / "torch_spyre").glob("*/__init__.py"),
        *(ROOT / "torch_spyre/_inductor").glob("*/__init__.py"),
    ]
    names = [f"{path.parent.relative_to(ROOT)}/" for path in packages]
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_contributing_links_every_guide():
    guides = [*DOCS.glob("adding-*.md"), *DOCS.glob("porting-*.md")]
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [guide.name for guide in guides if f"(docs/{guide.name})" not in page] == []


def test_terms_of_the_glossary_are_sorted():
    terms = re.findall(r"^(\S.*)\n: ", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
