"""The driver of the fuzzing program: counting, resuming, saved cases and planted bugs."""

import json
import time
from dataclasses import replace

import pytest
from planted_kinds import Numbers, Planted

from fuzz.cases import Case, load_case, minimised
from fuzz.driver import Driver, Options, replay
from fuzz.kind import chance_of
from fuzz.outcomes import Problem

SIGNATURES = {
    "crash": "SIGSEGV",
    "hang": "time beyond the limit",
    "memory": "memory beyond the limit",
    "exception": "KeyError",
    "wrong": "a wrong number",
}


@pytest.fixture
def options(tmp_path):
    return Options(seed=5, inputs=20, cases=tmp_path / "cases", state=tmp_path / "state.json")


def run(kind, options):
    return Driver([kind], options, say=lambda text: None).run()


def test_an_input_depends_on_seed_kind_and_number_alone():
    kind = Numbers()

    def content(*key):
        return kind.generate(chance_of(*key))

    assert content(1, "numbers", 7) == content(1, "numbers", 7)
    different = [content(2, "numbers", 7), content(1, "texts", 7), content(1, "numbers", 8)]
    assert content(1, "numbers", 7) not in different


@pytest.mark.parametrize("jobs", [1, 2])
def test_inputs_and_rejections_are_counted(options, jobs):
    report = run(Numbers(), replace(options, inputs=100, jobs=jobs))
    kind = Numbers()
    contents = [kind.generate(chance_of(5, "numbers", number)) for number in range(100)]
    tally = report.tallies["numbers"]
    assert (tally.inputs, tally.findings) == (100, 0)
    assert tally.rejected == sum(content[0] % 2 == 0 for content in contents)
    assert tally.per_second > 0
    assert "100 inputs with seed 5, 0 findings" in report.table()


def test_a_run_resumes_where_the_last_one_stopped(options):
    run(Numbers(), options)
    run(Numbers(), replace(options, seed=None, inputs=13))
    assert json.loads(options.state.read_text()) == {"seed": 5, "positions": {"numbers": 33}}
    driver = Driver([Numbers()], replace(options, seed=None))
    assert driver.next == {"numbers": 33}
    assert Driver([Numbers()], replace(options, seed=6)).next == {"numbers": 0}


def test_a_run_ends_after_its_time(options):
    report = run(Numbers(), replace(options, inputs=None, minutes=0.01))
    assert report.tallies["numbers"].inputs > 0


@pytest.mark.parametrize("bug", SIGNATURES)
def test_a_planted_bug_is_found_and_saved_once(options, bug):
    kind = Planted(bug)
    num_inputs = 4 if bug == "hang" else 20
    report = run(kind, replace(options, inputs=num_inputs))
    contents = [kind.generate(chance_of(5, "numbers", number)) for number in range(num_inputs)]
    num_bad = sum(any(number < 100 for number in content) for content in contents)
    assert report.tallies["numbers"].inputs == num_inputs
    assert report.findings == num_bad > 0
    (path,) = report.cases
    case = load_case(path)
    assert case.signature.startswith(SIGNATURES[bug])
    assert len(case.content) == 1 and case.content[0] < 100
    assert json.loads(path.read_text())["reproduce"] == f"python -m fuzz --replay {path}"


def test_an_input_that_waits_for_a_busy_machine_is_no_finding(options):
    class Waiting(Numbers):
        seconds = 0.3

        def run(self, content):
            time.sleep(2 * self.seconds)

    assert run(Waiting(), replace(options, inputs=1)).findings == 0


def test_another_run_finds_the_same_and_saves_nothing_new(options):
    first = run(Planted("wrong"), options)
    options.state.unlink()
    second = run(Planted("wrong"), options)
    assert second.findings == first.findings > 0
    assert (len(first.cases), second.cases) == (1, [])


@pytest.mark.parametrize("bug", ["crash", "exception"])
def test_a_saved_case_can_be_replayed(options, bug):
    (path,) = run(Planted(bug), options).cases
    problem = replay([path], [Planted(bug)])[path]
    assert problem is not None and problem.signature == load_case(path).signature
    assert replay([path], [Planted("mended")]) == {path: None}


def test_minimising_keeps_the_problem():
    def problem_with(content):
        return Problem("sum" if sum(content) > 10 else "other", str(content))

    case = Case("numbers", 0, 0, "sum", "", [1, 2, 3, 4, 5, 6])
    smallest = minimised(case, Numbers(), problem_with)
    assert sum(smallest.content) > 10
    assert len(smallest.content) == 2
    assert smallest.description == str(smallest.content)
