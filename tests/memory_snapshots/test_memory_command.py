"""`spyre memory`: the text and the page of snapshots, and files that are none."""

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_samples import Simulator, training_step

from torch_spyre.errors import InputError
from torch_spyre.memory_snapshots.page import memory_page
from torch_spyre.memory_snapshots.snapshot import read_snapshot
from torch_spyre.memory_snapshots.summary import summary


class RunsCode:
    def __reduce__(self):
        return os.getcwd, ()


@pytest.fixture
def written(tmp_path):
    """Return a function that pickles an object to a file."""

    def write(content):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps(content))
        return path

    return write


def test_the_summary_lists_what_allocated_the_memory(spyre, written):
    code, out, err = spyre("memory", written(training_step().snapshot()), "--sites", 2)
    assert (code, err) == (0, "")
    assert out.startswith("spyre:0\n")
    for text in (
        "in use    3.0 MiB in 2 allocations",
        "history   6 events",
        "peak      7.0 MiB, after event 3 (0.002 s after the first, device time 2.0 us)",
        "failed    1,024.0 GiB were requested and not available",
        "4.0 MiB  1 x  /home/me/train.py:12 in step",
        "1.0 MiB  1 x  1 other line",
        "allocated at the end",
    ):
        assert text in out, (text, out)


def test_a_snapshot_without_memory_says_so(spyre, written):
    code, out, _ = spyre("memory", written(Simulator().snapshot()))
    assert (code, out) == (0, "no device memory was allocated, and no event was recorded\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1, 2], "it holds a list, not a dict"),
        ({"segments": []}, "no 'device_traces'"),
        ({"segments": [{"blocks": []}], "device_traces": []}, "no 'address'"),
        ({"segments": [], "device_traces": [[{"action": "alloc", "size": "x"}]]}, "invalid"),
        ({"segments": [], "device_traces": [[{"action": "alloc", "size": -1}]]}, "-1 is no"),
        ({"segments": 3, "device_traces": []}, "not iterable"),
        (RunsCode(), "getcwd, and a snapshot is plain data"),
    ],
)
def test_files_that_are_no_snapshots_are_errors_of_one_line(spyre, written, content, problem):
    path = written(content)
    code, out, err = spyre("memory", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {path}: not a memory snapshot: ") and err.count("\n") == 1
    assert problem in err


@pytest.mark.parametrize("content", [b"", b"\x80", b"PK\x03\x04zip", b"{}", b"\x80\x04]q\x00."])
def test_bytes_that_are_no_pickle_are_errors_of_one_line(spyre, tmp_path, content):
    path = tmp_path / "bad.pickle"
    path.write_bytes(content)
    code, out, err = spyre("memory", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {path}: ") and err.count("\n") == 1


@given(
    position=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), length=st.floats(0.5, 1)
)
def test_damaged_snapshots_are_read_or_rejected(tmp_path_factory, position, byte, length):
    content = bytearray(pickle.dumps(training_step().snapshot()))
    content[int(position * len(content))] = byte
    path = tmp_path_factory.mktemp("damaged") / "snapshot.pickle"
    path.write_bytes(content[: int(length * len(content))])
    try:
        cards = read_snapshot(path)
    except InputError:
        return
    assert summary(cards, num_sites=3) and memory_page(cards, "damaged")


def test_missing_files_and_folders_are_errors(spyre, tmp_path):
    assert spyre("memory", tmp_path / "none")[2] == (
        f"error: {tmp_path / 'none'}: No such file or directory\n"
    )
    assert spyre("memory", tmp_path)[0] == 1


def test_a_page_that_cannot_be_written_is_an_error(spyre, written, tmp_path):
    path = written(training_step().snapshot())
    code, _, err = spyre("memory", path, "--html", tmp_path / "no" / "page.html")
    assert code == 1 and err.startswith("error: cannot write")


def test_the_page_shows_usage_addresses_and_sites(spyre, written, browser, tmp_path):
    page = tmp_path / "page.html"
    assert spyre("memory", written(training_step().snapshot()), "--html", page)[0] == 0
    view = browser.open(page)
    assert view.texts("h2") == ["spyre:0"]
    pictures = view.elements("svg", class_="picture")
    assert len(pictures) == 2
    tooltips = view.texts("title")
    assert "after event 3: 4.0 MiB of /home/me/train.py:12 in step" in tooltips
    assert any(text.startswith("4.0 MiB at 0x300000\n") for text in tooltips)
    # One box for each allocation in the picture of addresses: 6 + 1 columns wide, 4 MiB of 7.
    (largest,) = [
        box.attributes
        for box in view.elements("svg", class_="box")
        if box.text.startswith("4.0 MiB at")
    ]
    assert float(largest["width"].rstrip("%")) == pytest.approx(300 / 7, abs=0.1)
    assert "/home/me/train.py:12 in step" in view.texts("td")
    assert any("linear.py:1 in forward" in text for text in view.texts("pre"))
