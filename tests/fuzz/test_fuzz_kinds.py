"""Every kind of fuzzing input runs without a finding, and the saved cases pass."""

import subprocess
import sys

import pytest

from fuzz.driver import ROOT
from fuzz.kind import Content, Kind, chance_of
from fuzz.kinds import NAMES, kinds_named

CASES = sorted((ROOT / "tests/fuzz/cases").glob("*.json"))
KINDS = kinds_named()
# Some seconds in all: most of the time is for ops, which are compiled at their first use.
QUICK_INPUTS = 15
MANY_INPUTS = {
    "ktir": 3000, "programs": 10_000, "bundles": 3000, "caches": 500, "arguments": 5000, "ops": 300,
}  # fmt: skip


def fuzz(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program in a new process, which forks: a process that has used a card must not."""
    words = (sys.executable, "-m", "fuzz", *words)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture
def places(tmp_path):
    return "--cases", str(tmp_path / "cases"), "--state", str(tmp_path / "state.json")


def test_a_short_run_of_all_kinds_finds_nothing(places):
    done = fuzz("--inputs", str(QUICK_INPUTS), "--seed", "11", *places)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(NAMES) * QUICK_INPUTS} inputs with seed 11, 0 findings" in done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_a_long_run_finds_nothing(name, places):
    done = fuzz("--only", name, "--inputs", str(MANY_INPUTS[name]), "--seed", "11", *places)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_inputs_are_reproducible(kind: Kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def contents() -> list[Content]:
        return [kind.generate(chance_of(3, kind.name, number)) for number in range(5)]

    first = contents()
    assert repr(contents()) == repr(first)
    assert any(content != first[0] for content in first)


def test_a_finding_is_saved_and_ends_with_exit_code_1(places, tmp_path):
    code = (
        "import sys; sys.path[:0] = ['tests/helpers'];"
        "import fuzz.kinds, fuzz.__main__; from planted_kinds import Planted;"
        "fuzz.kinds.kinds_named = lambda names: [Planted('wrong')]; sys.exit(fuzz.__main__.main())"
    )
    words = [sys.executable, "-c", code, "--inputs", "20", *places]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    (case,) = (tmp_path / "cases").iterdir()
    assert f"python -m fuzz --replay {case}" in done.stdout


@pytest.mark.parametrize("words", [("--only", "nothing"), ("--minutes", "0"), ("--inputs", "x")])
def test_wrong_arguments_are_rejected(words):
    done = fuzz(*words)
    assert done.returncode == 2
    assert words[1] in done.stderr


@pytest.fixture(scope="module")
def replayed():
    """Run all saved cases at once, and return what the program says of them."""
    return fuzz("--replay", *map(str, CASES)).stdout


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_saved_cases_pass(path, replayed):
    assert f"{path}: passes\n" in replayed, replayed
