import inspect
import os
import sys
from collections import Counter

import hypothesis
import pytest
import run_scope

from torch_spyre import knobs

pytest_plugins = ["browser", "card_fixtures"]

# Tests of the device, of copies and of the fallback use thousands of shapes. They run without
# kernels, which are compiled for every shape. Tests of kernels enable them.
os.environ.setdefault("TORCH_SPYRE_EAGER", "fallback")
# A launch whose work is not what the timing model counts fails the test.
os.environ.setdefault("SPYRE_EMU_CHECK_COUNTS", "1")
# A pass that leaves an invalid bundle fails the test and is named in the error.
os.environ.setdefault("TORCH_SPYRE_VALIDATE_PASSES", "1")


@pytest.fixture(scope="session", autouse=True)
def separate_folders(tmp_path_factory):
    """Use new folders for compiled programs and failure reports instead of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path_factory.mktemp("programs")))
        patch.setenv("TORCH_SPYRE_REPORTS", str(tmp_path_factory.mktemp("reports")))
        yield


# The test, or the file marked `shared_plans`, whose eager ops have been compiled.
plans_of = None


@pytest.fixture
def plan_scope(request):
    """Return the scope that shares plans of eager ops: the test, or its file if marked.

    A folder whose tests only compare values overrides this, to compile each op once per file.
    """
    shared = request.node.get_closest_marker("shared_plans") is not None
    return request.module.__name__ if shared else request.node.nodeid


@pytest.fixture
def kernels(monkeypatch, request, plan_scope):
    """Run eager ops on the card, in child processes too.

    A test that uses monkeypatch does not reuse plans of other tests.
    """
    global plans_of
    from torch_spyre.ops import eager, plans

    monkeypatch.setenv("TORCH_SPYRE_EAGER", "native")
    eager.use_kernels(True)
    patches = "monkeypatch" in inspect.signature(request.function).parameters
    owner = request.node.nodeid if patches else plan_scope
    if plans_of != owner:
        plans.clear_all_plans()
    plans_of = owner


def pytest_configure(config):
    """Set the defaults of properties before their modules are imported, so that all inherit them.

    Without heavy tests a property has fewer examples.
    """
    run_scope.is_quick = config.option.markexpr == "not heavy"
    hypothesis.settings.register_profile(
        "torch_spyre",
        max_examples=40 if run_scope.is_quick else 100,
        # The time of an example depends on the load of the machine.
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("torch_spyre")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark most cases of tests with `one_case_in(n)` heavy: all but every n-th.

    The cases of such a test differ little, and compiling all of them takes long.
    """
    num_cases = Counter()
    for item in items:
        mark = item.get_closest_marker("one_case_in")
        if mark is None or item.get_closest_marker("heavy") is not None:
            continue
        test = item.nodeid.split("[")[0]
        if num_cases[test] % mark.args[0] != 0:
            item.add_marker(pytest.mark.heavy)
        num_cases[test] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Restore the default kernels before a test that does not use the fixture `kernels`."""
    eager = sys.modules.get("torch_spyre.ops.eager")
    if eager is not None and "kernels" not in item.fixturenames:
        eager.use_kernels(knobs.execution.eager == "native")


@pytest.fixture
def spyre(monkeypatch, capsys):
    """Return a function that runs the `spyre` command and returns exit code, stdout and stderr."""
    from torch_spyre.tools import cli

    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["spyre", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return caught.value.code, captured.out, captured.err

    return run
