import pytest

from torch_spyre.text_reports import aligned, ranges, readable_bytes


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")]
)
def test_ascending_numbers_are_listed_as_ranges(numbers, text):
    assert ranges(numbers) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (2 << 40, "2,048.0 GiB"),
    ],
)
def test_sizes_have_units(count, text):
    assert readable_bytes(count) == text


def test_columns_are_aligned():
    assert list(aligned([["a", "bb"], ["ccc", "d"]])) == ["a    bb", "ccc  d"]
