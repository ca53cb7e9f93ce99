"""Tests of the program cache on disk: hits, damaged files, eviction and concurrent processes."""

import logging
import multiprocessing
import os
import random
import time

import pytest
from compiling import compiled

from torch_spyre import knobs, ktir
from torch_spyre.backend import kernels
from torch_spyre.backend.program import cache as program_cache
from torch_spyre.backend.program.cache import ProgramCache, cache_key
from torch_spyre.backend.program.program import Program
from torch_spyre.testing.cards import write_card

TEXT = """
func.func @f(%p: index, %s: f16) {
  %v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] : memref<64xf16>
  %c0 = arith.constant 0 : index
  %t = ktdp.construct_access_tile %v[%c0]
    {access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>} : memref<64xf16> -> <64xindex>
  %x = ktdp.load %t : <64xindex> -> tensor<64xf16>
  %k = tensor.splat %s : tensor<64xf16>
  %y = arith.addf %x, %k : tensor<64xf16>
  ktdp.store %y, %t : tensor<64xf16>, <64xindex>
  return
}
func.func @g(%p: index) {
  return
}
"""


@pytest.fixture
def folder(tmp_path):
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(tmp_path)):
        yield tmp_path


@pytest.fixture
def compilations(monkeypatch):
    """Counts how often the compiler runs."""
    seen = []
    original = kernels.compile_function

    def spy(*arguments, **options):
        seen.append(arguments[0].sym_name.data)
        return original(*arguments, **options)

    monkeypatch.setattr(kernels, "compile_function", spy)
    return seen


@pytest.fixture
def logged_warnings(caplog):
    """Return a function that returns the warnings of the cache."""
    caplog.set_level(logging.WARNING, logger=program_cache.logger.name)
    return lambda: [record.getMessage() for record in caplog.records]


def compile_once(text=TEXT, function="f", **scalars):
    """Compile in a new module, as another process would."""
    return ktir.load(text).compile(function, **scalars)


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sample_program(name="f"):
    return Program.from_content(compiled(TEXT.replace("@f", f"@{name}"), function=name))


def test_a_program_is_compiled_once_for_all_processes(folder, compilations):
    first, second = compile_once(), compile_once()
    assert compilations == ["f"]
    assert first == second
    (path,) = files(folder)
    assert path.parent.name == path.name[:2]
    assert path.suffix == ".prg"


@pytest.mark.parametrize(
    "change",
    [
        {"function": "g"},
        {"s": 1.0},
        {"text": TEXT.replace("addf", "mulf")},
        {"text": "\n" + TEXT},  # ops are on other lines
        {"text": TEXT.replace("@f(%p", "@f(%q").replace("view %p", "view %q")},
    ],
    ids=["function", "scalar", "op", "line", "name"],
)
def test_every_input_of_the_compiler_changes_the_key(folder, compilations, change):
    compile_once()
    compile_once(**change)
    assert len(compilations) == 2


def test_equal_scalars_of_different_meaning_are_different_programs(folder):
    module = ktir.load(TEXT)
    assert module.compile("f", s=0.0) != module.compile("f", s=-0.0)


def test_arrays_and_card_are_part_of_the_key(folder, compilations, tmp_path):
    module = ktir.load(TEXT)
    kernels.compile_kernel(module, "g", {}, frozenset({"p"}))
    kernels.compile_kernel(module, "g", {}, frozenset())
    smaller = write_card(tmp_path / "card.yaml", {"compute.lx_bytes": 2**20})
    with knobs.override(SPYRE_CARD=str(smaller)):
        kernels.compile_kernel(module, "g", {}, frozenset())
    assert compilations == ["g"] * 3


def test_the_compiler_s_code_is_part_of_the_key(monkeypatch):
    before = cache_key("a", "b")
    assert cache_key("a", "b") == before
    monkeypatch.setattr(program_cache, "_compiler_hash", lambda: "another")
    assert cache_key("a", "b") != before
    assert cache_key("ab", "") != cache_key("a", "b")


def damage_cut(raw):
    return raw[: len(raw) // 2]


def damage_flip(raw):
    position = len(raw) - 3
    return raw[:position] + bytes([raw[position] ^ 4]) + raw[position + 1 :]


def damage_version(raw):
    return raw[:48] + b"\xff" + raw[49:]


DAMAGES = {
    "empty": lambda raw: b"",
    "cut": damage_cut,
    "flip": damage_flip,
    "longer": lambda raw: raw + b"\0",
    "version": damage_version,
    "foreign": lambda raw: b"#!/bin/sh\n",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_rewritten(folder, compilations, logged_warnings, damage):
    expected = compile_once()
    (path,) = files(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert compile_once() == expected
    assert len(compilations) == 2
    (message,) = logged_warnings()
    assert str(path) in message
    assert path.read_bytes() == good
    assert compile_once() == expected
    assert len(compilations) == 2


def test_the_program_of_another_kernel_under_this_name_is_not_used(
    folder, compilations, logged_warnings
):
    compile_once()
    compile_once(function="g")
    first, second = files(folder)
    second.write_bytes(first.read_bytes())
    assert compile_once().name == "f"
    assert compile_once(function="g").name == "g"
    assert len(logged_warnings()) == 1
    assert len(compilations) == 3


def test_entries_that_are_not_files_are_ignored(folder, compilations, logged_warnings):
    compile_once()
    (path,) = files(folder)
    path.unlink()
    os.mkfifo(path)
    compile_once()
    assert len(compilations) == 2
    path.unlink()
    path.mkdir()
    compile_once()
    compile_once()
    assert len(compilations) == 4
    assert any("cannot be cached" in message for message in logged_warnings())


@pytest.mark.parametrize("value", ["", "0", "off", "OFF"])
def test_it_can_be_turned_off(tmp_path, monkeypatch, compilations, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=value):
        compile_once()
        compile_once()
    assert len(compilations) == 2
    assert files(tmp_path) == []


def test_a_limit_of_zero_turns_it_off(folder, compilations):
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE_MB=0):
        compile_once()
        compile_once()
    assert len(compilations) == 2
    assert files(folder) == []


def test_by_default_it_is_in_the_user_s_cache_folder(tmp_path, monkeypatch):
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=None):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert knobs.execution.program_cache == str(tmp_path / "torch_spyre" / "programs")
        monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert knobs.execution.program_cache == str(tmp_path / ".cache/torch_spyre/programs")


def test_a_folder_that_cannot_be_written_is_warned_about_once(
    tmp_path, compilations, logged_warnings
):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(blocked / "programs")):
        assert compile_once() == compile_once()
        compile_once(function="g")
    assert len(compilations) == 3
    warnings = [message for message in logged_warnings() if "cannot be cached" in message]
    assert len(warnings) == 1


def test_folders_are_created_for_the_user_alone(tmp_path):
    folder = tmp_path / "caches" / "programs"
    umask = os.umask(0)
    try:
        with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(folder)):
            compile_once()
    finally:
        os.umask(umask)
    (path,) = files(folder)
    for created in (folder.parent, folder, path.parent):
        assert created.stat().st_mode & 0o777 == 0o700, created
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, compilations, logged_warnings, mode):
    expected = compile_once()
    folder.chmod(mode)
    assert compile_once() == expected
    assert len(compilations) == 2
    (message,) = logged_warnings()
    assert "other users may write" in message and str(folder) in message
    folder.chmod(0o755)
    assert compile_once() == expected
    assert len(compilations) == 2


def test_the_folder_of_another_user_is_not_used(folder, compilations, logged_warnings, monkeypatch):
    compile_once()
    user = os.geteuid()
    monkeypatch.setattr(program_cache.os, "geteuid", lambda: user + 1)
    compile_once()
    assert len(compilations) == 2
    assert "belongs to another user" in logged_warnings()[0]


def test_a_file_that_others_may_write_is_compiled_again_and_replaced(
    folder, compilations, logged_warnings
):
    expected = compile_once()
    (path,) = files(folder)
    path.chmod(0o666)
    assert compile_once() == compile_once() == expected
    assert len(compilations) == 2 and len(logged_warnings()) == 1
    assert path.stat().st_mode & 0o022 == 0


def test_a_file_of_any_size_is_compiled_again_and_replaced(folder, compilations, logged_warnings):
    expected = compile_once()
    (path,) = files(folder)
    good = path.read_bytes()
    os.truncate(path, 1 << 40)
    assert compile_once() == compile_once() == expected
    assert len(compilations) == 2
    assert path.read_bytes() == good and len(logged_warnings()) == 1


def key_of(number):
    return cache_key(str(number))


def test_the_least_recently_used_programs_are_evicted(tmp_path):
    program = sample_program()
    size = len(program.file) + 40
    cache = ProgramCache(tmp_path, 10 * size)
    for number in range(10):
        cache.store(key_of(number), program)
        os.utime(cache.path(key_of(number)), (number, number))
    assert cache.load(key_of(0)) == program  # used just now
    for number in range(10, 13):
        cache.store(key_of(number), program)
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 10 * size
    assert cache.load(key_of(0)) == program
    assert cache.load(key_of(1)) is None
    assert cache.load(key_of(12)) == program


def test_the_folder_is_not_listed_for_every_write(tmp_path, monkeypatch):
    program = sample_program()
    listed = spy_on_listing(monkeypatch)
    cache = ProgramCache(tmp_path, 3200 * len(program.file))
    for number in range(150):
        cache.store(key_of(number), program)
    assert len(listed) == 8 + 256  # a sample of folders, then all, since the sample was empty


def spy_on_listing(monkeypatch):
    listed = []
    original = os.scandir

    def spy(folder):
        listed.append(folder)
        return original(folder)

    monkeypatch.setattr(program_cache.os, "scandir", spy)
    return listed


def fill_folders(tmp_path, files_per_folder, size):
    for name in program_cache._FOLDERS:
        (tmp_path / name).mkdir()
        for number in range(files_per_folder):
            (tmp_path / name / f"{name}{number}.prg").write_bytes(b"x" * size)


@pytest.mark.parametrize(("limit", "looks"), [(256 * 10 * 100 * 2, 8), (256 * 10 * 100, 8 + 256)])
def test_the_size_of_a_large_cache_is_estimated_from_some_folders(
    tmp_path, monkeypatch, limit, looks
):
    fill_folders(tmp_path, files_per_folder=10, size=100)
    program = sample_program()
    listed = spy_on_listing(monkeypatch)
    state = random.getstate()
    ProgramCache(tmp_path, limit).store(key_of(0), program)
    assert len(listed) == looks
    assert random.getstate() == state  # the program's own
    assert sum(path.stat().st_size for path in files(tmp_path)) <= limit


def test_a_program_larger_than_the_limit_is_not_stored(tmp_path):
    program = sample_program()
    cache = ProgramCache(tmp_path, len(program.file))
    cache.store(key_of(0), program)
    assert files(tmp_path) == []


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    program = sample_program()
    cache = ProgramCache(tmp_path, 1 << 20)
    cache.store(key_of(0), program)
    left = cache.path(key_of(0)).with_suffix(".abcd.tmp")
    fresh = cache.path(key_of(0)).with_suffix(".efgh.tmp")
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    ProgramCache(tmp_path, 1 << 20).store(key_of(1), program)
    assert not left.exists()
    assert fresh.exists()


def hammer(folder, seed, seconds, failures):
    """Load, store, damage and remove programs in random order."""
    try:
        chance = random.Random(seed)
        programs = {number: sample_program(f"k{number}") for number in range(4)}
        cache = ProgramCache(folder, 3 * (len(programs[0].file) + 60))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            number = chance.randrange(4)
            key = key_of(number)
            loaded = cache.load(key)
            assert loaded is None or loaded == programs[number]
            match chance.randrange(4):
                case 0:
                    with_damage = cache.path(key)
                    with_damage.parent.mkdir(parents=True, exist_ok=True)
                    with_damage.write_bytes(chance.randbytes(chance.randrange(200)))
                case 1:
                    cache.path(key).unlink(missing_ok=True)
                case _:
                    cache.store(key, programs[number])
    except BaseException as error:
        failures.put(repr(error))
        raise


@pytest.mark.parametrize("seconds", [1.5, pytest.param(5.0, marks=pytest.mark.heavy)])
def test_concurrent_writes_damage_and_kills_do_not_break_the_cache(tmp_path, seconds):
    context = multiprocessing.get_context("spawn")
    failures = context.SimpleQueue()
    workers = [
        context.Process(target=hammer, args=(tmp_path, seed, seconds, failures))
        for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    victim = context.Process(target=hammer, args=(tmp_path, 99, 600.0, failures))
    victim.start()
    for worker in workers:
        worker.join()
    victim.kill()
    victim.join()
    assert failures.empty() or pytest.fail(failures.get())
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    program = sample_program()
    cache = ProgramCache(tmp_path, 1 << 20)
    cache.store(key_of(0), program)
    assert cache.load(key_of(0)) == program
