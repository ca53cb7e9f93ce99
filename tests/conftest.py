import inspect
import os
import sys

import pytest

from torch_spyre import knobs

pytest_plugins = ["card_fixtures"]

# The tests of the device, its copies and its fallback are about these and not about kernels; and
# kernels are compiled for every shape, of which they use thousands. Tests of kernels turn them on.
os.environ.setdefault("TORCH_SPYRE_EAGER", "fallback")
# A pass that leaves an invalid bundle fails the test and is named in the error.
os.environ.setdefault("TORCH_SPYRE_VALIDATE_PASSES", "1")


@pytest.fixture(scope="session", autouse=True)
def programs_of_the_tests_alone(tmp_path_factory):
    """Tests neither use nor fill the user's folder of compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path_factory.mktemp("programs")))
        yield


# The test, or the file marked `shared_plans`, whose eager ops have been compiled.
plans_of = None


@pytest.fixture
def plan_scope(request):
    """The name of the tests that share the plans of eager ops: the test, or its marked file.

    A folder whose tests only compare values overrides this, to compile each op once a file.
    """
    shared = request.node.get_closest_marker("shared_plans") is not None
    return request.module.__name__ if shared else request.node.nodeid


@pytest.fixture
def kernels(monkeypatch, request, plan_scope):
    """Eager ops run on the card, in child processes too.

    A test that patches something compiles its ops anew, whatever the scope of plans.
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


def pytest_collection_finish(session):
    """For properties that name no number of examples; without heavy tests there are fewer."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    quick = session.config.option.markexpr == "not heavy"
    hypothesis.settings.register_profile(
        "ours",
        max_examples=40 if quick else 100,
        # How long an example takes says more about the other processes than about the code.
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("ours")


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
