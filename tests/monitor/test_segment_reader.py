"""Files that no process of ours has written in full: skipped with a reason, or removed."""

import os
import random

import pytest
from monitor_files import DESCRIPTION, card, file_name, file_of_this_process, header, own_identity

from torch_spyre.errors import MonitorFolderError
from torch_spyre.monitor import take_sample

DEAD = (own_identity()[0], own_identity()[1], own_identity()[2] + 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cards"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("SPYRE_SMI_DIR", str(path))
    return path


def skip_reasons():
    sample = take_sample()
    assert not sample.segments
    return [skipped.reason for skipped in sample.skipped]


def test_counters_of_a_file_are_read(folder):
    finished = {"cores_ps": 5, "pt_ps": 3, "launches": 2, "to_host_bytes": 9}
    content = header(num_cards=2) + card(memory=(256, 512, 1024), end_ps=77, finished=finished)
    content += card(index=6, total=1 << 20, running={"ring_ps": 4}, executing=1)
    with file_of_this_process(folder, content):
        sample = take_sample()
    ((identity, segment),) = sample.segments.items()
    assert identity == own_identity() and segment.pid == os.getpid()
    assert segment.card.name == "a card" and segment.card.power.board == 75
    first, second = segment.cards
    assert (first.allocated_bytes, first.peak_bytes, first.reserved_bytes) == (256, 512, 1024)
    assert (first.index, first.total_bytes, first.end_ps) == (0, 1 << 30, 77)
    amounts = first.finished
    assert (amounts.cores_ps, amounts.pt_ps, amounts.launches) == (5, 3, 2)
    assert (amounts.to_host_bytes, amounts.ring_ps) == (9, 0)
    assert (second.index, second.total_bytes, second.is_executing) == (6, 1 << 20, True)
    assert second.running.ring_ps == 4 and second.executed_ns == second.read_ns


GOOD = header() + card()
DAMAGED = {
    "half a header": (GOOD[:500], "too short"),
    "half a card": (GOOD[:-1], "1343 bytes for 1 cards"),
    "too long": (GOOD + b"\0", "1345 bytes for 1 cards"),
    "another file": (b"PNG" + GOOD[3:], "not a file of a process"),
    "another version": (header(version=2) + card(), "another version"),
    "no cards": (header(num_cards=0), "0 cards"),
    "many cards": (header(num_cards=2**32 - 1) + card(), "4294967295 cards"),
    "another process": (header(DEAD) + card(), "another process"),
    "no description": (header(description=b"") + card(), "description"),
    "no JSON": (header(description=b"\xff" * 984) + card(), "description"),
    "nested JSON": (header(description=b"[" * 984) + card(), "description"),
    "a clock of 0": (header(description={**DESCRIPTION, "clock_ghz": 0}) + card(), "description"),
    "no number": (header(description={**DESCRIPTION, "clock_ghz": "x"}) + card(), "description"),
    "infinite": (
        header(description=b'{"name": "", "power": {}, "clock_ghz": 1e999}') + card(),
        "description",
    ),
    "a card that cannot exist": (header() + card(index=64), "counters of a card 64"),
    "negative memory": (header() + card(memory=(-1, 0, 0)), "memory does not fit"),
    "more memory than there is": (header() + card(memory=(2, 2, 2), total=1), "does not fit"),
    "executed for ages": (header() + card(executed_ns=2**63), "longer than the machine"),
    "written for ever": (header() + card(sequence=3), "being written"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_file_is_skipped_with_a_reason(folder, damage):
    content, reason = DAMAGED[damage]
    with file_of_this_process(folder, content) as path:
        (shown,) = skip_reasons()
        assert reason in shown
        assert path.exists()  # its process lives


@pytest.mark.parametrize("content", [b"", b"\0" * 100, bytes(8) + GOOD[8:]])
def test_file_without_a_header_belongs_to_a_process_that_starts(folder, content):
    with file_of_this_process(folder, content):
        assert skip_reasons() == []


def test_random_bytes_never_stop_the_reader(folder):
    numbers = random.Random(1)
    for _ in range(300):
        content = bytearray(header(num_cards=2) + card() + card(index=1))
        for _ in range(numbers.randrange(1, 6)):
            content[numbers.randrange(len(content))] = numbers.randrange(256)
        content = content[: numbers.choice([len(content), numbers.randrange(len(content))])]
        if content[1024:1032] != bytes(8) or content[1344:1352] != bytes(8):
            continue  # an odd sequence number takes long
        with file_of_this_process(folder, bytes(content)):
            sample = take_sample()
            assert len(sample.segments) + len(sample.skipped) <= 1


def test_file_of_a_dead_process_is_removed_whatever_it_contains(folder):
    for content in (header(DEAD) + card(), b"", b"garbage" * 1000):
        path = folder / file_name(DEAD)
        path.write_bytes(content)
        assert skip_reasons() == [] and not path.exists()


def test_file_that_nobody_locks_was_left_by_an_earlier_program_of_the_process(folder):
    path = folder / file_name(own_identity())
    path.write_bytes(GOOD)
    assert skip_reasons() == [] and path.exists()


def test_file_of_another_container_is_left_alone(folder):
    path = folder / file_name((1, *DEAD[1:]))
    path.write_bytes(GOOD)
    assert skip_reasons() == ["its process runs in another container"] and path.exists()


def test_other_files_are_left_alone(folder):
    names = ("notes.txt", "1-2.smi", "1-2-3.smi.bak", "x-y-z.smi", f"{2**80}-1-1.smi")
    for name in names:
        (folder / name).write_text("mine")
    assert skip_reasons() == [] and sorted(os.listdir(folder)) == sorted(names)


def test_links_pipes_and_folders_are_not_opened(folder, tmp_path):
    name = file_name(own_identity())
    target = tmp_path / "target"
    target.write_bytes(GOOD)
    (folder / name).symlink_to(target)
    assert "cannot be opened" in skip_reasons()[0]
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert skip_reasons() == ["it is not a regular file"]
    (folder / name).unlink()
    (folder / name).mkdir()
    assert skip_reasons() == ["it is not a regular file"]
    # The name of a dead process is no permission to remove what was not its file.
    (folder / file_name(DEAD)).symlink_to(target)
    skip_reasons()
    assert (folder / file_name(DEAD)).is_symlink() and target.exists()


def test_folder_that_others_may_write_is_an_error(folder):
    folder.chmod(0o770)
    with pytest.raises(MonitorFolderError, match="other users may write"):
        take_sample()


def test_folder_that_is_a_link_or_a_file_is_an_error(folder, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        monkeypatch.setenv("SPYRE_SMI_DIR", str(tmp_path / name))
        with pytest.raises(MonitorFolderError, match="symbolic link"):
            take_sample()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_of_another_user_is_an_error(folder):
    os.chown(folder, 12345, 12345)
    with pytest.raises(MonitorFolderError, match="another user"):
        take_sample()


def test_nothing_is_shown_where_no_process_has_opened_a_card(tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_SMI_DIR", str(tmp_path / "missing"))
    assert skip_reasons() == []
    assert not (tmp_path / "missing").exists()


def test_reading_is_an_error_if_monitoring_is_off(monkeypatch):
    monkeypatch.setenv("SPYRE_SMI_DIR", "off")
    with pytest.raises(MonitorFolderError, match="SPYRE_SMI_DIR is off"):
        take_sample()
