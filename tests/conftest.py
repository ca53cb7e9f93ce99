import os
import sys

import pytest

from torch_spyre import knobs

# The tests of the device, its copies and its fallback are about these and not about kernels; and
# kernels are compiled for every shape, of which they use thousands. Tests of kernels turn them on.
os.environ.setdefault("TORCH_SPYRE_EAGER", "fallback")


@pytest.fixture(scope="session", autouse=True)
def programs_of_the_tests_alone(tmp_path_factory):
    """Tests neither use nor fill the user's folder of compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path_factory.mktemp("programs")))
        yield


@pytest.fixture
def kernels(monkeypatch):
    """Eager ops run on the card, in child processes too; none has been compiled yet."""
    from torch_spyre.ops import eager, plans

    monkeypatch.setenv("TORCH_SPYRE_EAGER", "native")
    eager.use_kernels(True)
    plans.forget()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Kernels stay registered for the tests that follow, up to one that does not ask for them."""
    eager = sys.modules.get("torch_spyre.ops.eager")
    if eager is not None and "kernels" not in item.fixturenames:
        eager.use_kernels(knobs.execution.eager == "native")


@pytest.fixture
def spyre(monkeypatch, capsys):
    """Runs the `spyre` command; returns exit code, stdout and stderr."""
    from torch_spyre.tools import cli

    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["spyre", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return caught.value.code, captured.out, captured.err

    return run
