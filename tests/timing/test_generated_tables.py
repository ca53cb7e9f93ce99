"""The generated tables of docs/timing.md are current, and the model meets the published times."""

import re

import generate_timing_tables
import pytest
from generated_sections import stale_files


@pytest.mark.usefixtures("kernels")
def test_the_tables_of_the_page_are_current():
    assert not stale_files(generate_timing_tables.generated_files()), "run `make generate`"


def test_modelled_times_are_within_15_percent_of_the_published_ones():
    page = generate_timing_tables.PAGE.read_text()
    section = page.partition("<!-- generated: published points -->")[2].partition("<!-- end -->")[0]
    errors = [
        float(error) for error in re.findall(r"\| ([+-]?[\d.]+)%? \|$", section, re.MULTILINE)
    ]
    assert len(errors) == len(generate_timing_tables.POINTS)
    assert max(map(abs, errors)) < 15


def test_every_constant_of_the_timing_model_is_listed():
    table = generate_timing_tables.constants_table()
    timing = [
        source for source in generate_timing_tables.CARD.sources if source.entry[:7] == "timing."
    ]
    derived = generate_timing_tables.DERIVED
    missing = [
        source.entry
        for source in timing
        if f"`{derived.get(source.entry, source.entry)}`" not in table
    ]
    assert missing == []
