"""The kernels of examples/ktir, against NumPy in float64."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "ktir"


def load_runner():
    spec = importlib.util.spec_from_file_location("run_all", FOLDER / "run_all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = load_runner()


def test_every_kernel_is_run():
    assert {path.stem for path in FOLDER.glob("*.mlir")} == set(RUNNER.KERNELS)


@pytest.mark.parametrize("name", RUNNER.KERNELS)
def test_kernel_agrees_with_float64(name, capsys):
    assert RUNNER.main([name]) == 0, capsys.readouterr().out


def test_wrong_result_fails_the_runner(monkeypatch):
    make, _ = RUNNER.KERNELS["add"]

    def make_wrong_expectation():
        arguments, expected = make()
        expected["z"][7] += 1
        return arguments, expected

    monkeypatch.setitem(RUNNER.KERNELS, "add", (make_wrong_expectation, 0.5))
    assert RUNNER.main(["add"]) == 1
