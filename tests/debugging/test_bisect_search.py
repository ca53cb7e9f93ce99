"""`spyre bisect` asks the questions that follow from the answers before."""

import pytest

from torch_spyre import knobs
from torch_spyre.debugging.bisect import search
from torch_spyre.debugging.bisect.child import DivergenceReport, RunReport
from torch_spyre.debugging.bisect.levels import Verdict
from torch_spyre.debugging.bisect.scripts import Script, ScriptRun, difference

RIGHT, WRONG = "loss 1.0", "loss 7.5"


def divergence(**facts):
    values = {
        "kernel": "sdsc_add",
        "message": "kernel sdsc_add: the op add is wrong",
        "op": "add",
        "compiler_pass": None,
        "origin": "",
        "line": "model.py:3",
        "folder": None,
    }
    return DivergenceReport(**{**values, **facts})


class AnsweredScript(Script):
    """A script whose runs are answered by a function of the settings."""

    def __init__(self, folder, answer):
        super().__init__(folder / "script.py", [], folder)
        self.answer, self.asked = answer, []

    def run(self, environment, cpu_ops=()):
        self.asked.append(dict(environment))
        output, exit_code, report = RIGHT, 0, RunReport()
        answer = self.answer(dict(environment), list(cpu_ops))
        if isinstance(answer, str):
            output = answer
        elif isinstance(answer, int):
            exit_code = answer
        elif isinstance(answer, RunReport):
            report = answer
        return ScriptRun(exit_code, output, "the end of the errors", report)


def bisect(folder, answer):
    script = AnsweredScript(folder, answer)
    return search.bisect(script, tolerance=0.05), script


def names_and_verdicts(result):
    return {level.name: level.verdict for level in result.levels}


def is_on_cpu(environment):
    return environment.get("TORCH_SPYRE_EAGER") == "fallback"


def test_nothing_diverges_if_kernels_and_output_are_right(tmp_path):
    result, script = bisect(tmp_path, lambda environment, _: RIGHT)
    assert result.exit_code == 0 and not result.guilty
    assert set(names_and_verdicts(result).values()) == {Verdict.RIGHT}
    assert len(script.asked) == 2


def test_script_that_fails_on_the_cpu_too_is_not_blamed_on_the_card(tmp_path):
    result, _ = bisect(tmp_path, lambda environment, _: 1)
    assert result.exit_code == 2 and result.message == "the end of the errors"


def test_script_that_fails_on_the_card_only_diverges(tmp_path):
    result, _ = bisect(tmp_path, lambda environment, _: RIGHT if is_on_cpu(environment) else 1)
    assert result.exit_code == 1


def test_wrong_kernel_is_tried_with_other_settings(tmp_path):
    def answer(environment, _):
        if environment.get("SENCORES") == "1":
            return RIGHT
        return RunReport(divergences=[divergence()])

    result, script = bisect(tmp_path, answer)
    assert result.exit_code == 1
    assert (result.kernel, result.op, result.line) == ("sdsc_add", "add", "model.py:3")
    assert result.right_with == ["one core"]
    assert {"TORCH_SPYRE_VERIFY": "1", "TORCH_SPYRE_FUSION": "0"} in script.asked
    assert not any(map(is_on_cpu, script.asked))


def test_injected_fault_is_named(tmp_path):
    def answer(environment, _):
        is_clean = "SPYRE_EMU_INJECT" in environment
        return RIGHT if is_clean else RunReport(divergences=[divergence()])

    with knobs.override(SPYRE_EMU_INJECT="flip:addf"):
        result, _ = bisect(tmp_path, answer)
    assert result.guilty == "the injected fault flip:addf"


def test_wrong_graph_is_blamed_on_the_pass_that_changes_it(tmp_path):
    def answer(environment, _):
        if "TORCH_SPYRE_VERIFY_PASSES" in environment:
            return RunReport(divergences=[divergence(compiler_pass="layouts")])
        return RIGHT if "TORCH_COMPILE_DISABLE" in environment else WRONG

    result, _ = bisect(tmp_path, answer)
    assert result.compiler_pass == "layouts" and "layouts" in result.guilty
    assert names_and_verdicts(result)["eager ops"] is Verdict.RIGHT


def test_wrong_graph_that_is_right_unfused_is_blamed_on_fusion(tmp_path):
    def answer(environment, _):
        is_right = {"TORCH_SPYRE_FUSION", "TORCH_COMPILE_DISABLE"} & environment.keys()
        return RIGHT if is_right else WRONG

    result, _ = bisect(tmp_path, answer)
    assert result.compiler_pass == "fusion"


def test_difference_that_disappears_in_ieee_is_one_of_the_format(tmp_path):
    def answer(environment, _):
        is_right = is_on_cpu(environment) or environment.get("SPYRE_EMU_FP16") == "ieee"
        return RIGHT if is_right else WRONG

    result, _ = bisect(tmp_path, answer)
    assert "16-bit format" in result.guilty


@pytest.mark.parametrize("guilty", range(6))
def test_first_wrong_op_is_found_by_running_later_ones_on_the_cpu(tmp_path, guilty):
    ops = [(f"aten.op{number}.default", f"model.py:{number}") for number in range(6)]

    def answer(environment, cpu_ops):
        if is_on_cpu(environment):
            return RIGHT
        if "TORCH_COMPILE_DISABLE" in environment and not cpu_ops:
            return RunReport(ops=ops) if environment.get("asks") else WRONG
        return RIGHT if ops[guilty][0] in cpu_ops else WRONG

    script = AnsweredScript(tmp_path, answer)
    run = script.run

    def with_ops(environment, cpu_ops=()):
        result = run(environment, cpu_ops)
        return ScriptRun(result.exit_code, result.output, result.errors, RunReport(ops=ops))

    script.run = with_ops
    result = search.bisect(script, tolerance=0.05)
    assert (result.op, result.line) == ops[guilty]


def printed(text, exit_code=0):
    return ScriptRun(exit_code, text, "", None)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("loss 1.0", "loss 1.04", True),
        ("loss 1.0", "loss 1.2", False),
        ("tensor(70., dtype=float16)", "tensor(71., dtype=float16)", True),
        ("a1 is nan", "a1 is nan", True),
        ("1e-3 and -2.5e4", "0.0011 and -25001.0", True),
        ("one", "two", False),
        ("1\n2", "1", False),
    ],
)
def test_outputs_are_compared_as_text_with_numbers(left, right, is_same):
    assert (difference(printed(left), printed(right), 0.05) is None) == is_same


def test_other_exit_code_is_a_difference():
    assert "code 3" in difference(printed("", 3), printed(""), 0.05)
