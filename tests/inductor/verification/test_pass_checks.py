"""With TORCH_SPYRE_VERIFY_PASSES, a pass that changes what a bundle computes is named."""

import dataclasses

import pytest
import sympy
import torch
from varied_functions import FUNCTIONS

from torch_spyre._inductor import pipeline
from torch_spyre._inductor.loop_ir import Constant, Load, traverse
from torch_spyre._inductor.loop_rewriting import with_leaves
from torch_spyre._inductor.verification import pass_checks
from torch_spyre.debugging import verification
from torch_spyre.errors import VerificationError


@pytest.fixture(autouse=True)
def with_pass_checks(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")
    monkeypatch.setenv("TORCH_SPYRE_VERIFY_PASSES", "1")


def call_anew(call, tensors, *, is_compiled):
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        return (torch.compile(call) if is_compiled else call)(*tensors)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_case_in(16)
def test_every_pass_preserves_what_functions_compute(name, is_compiled, monkeypatch):
    checks = []
    find = pass_checks.find_guilty_pass
    monkeypatch.setattr(
        "torch_spyre._inductor.verification.kernel.find_guilty_pass",
        lambda *all: checks.append(1) or find(*all),
    )
    before = verification.summary().copy()
    function = FUNCTIONS[name]
    call_anew(function.call, function.on_card(), is_compiled=is_compiled)
    assert checks
    assert verification.summary().unverified == before.unverified


def with_other_constants(bundle):
    """Replace the factor 2 by 3 in all loops."""

    def changed(op):
        leaves = {
            node: dataclasses.replace(node, value=3.0)
            for node in traverse(op.roots)
            if isinstance(node, Constant) and node.value == 2
        }
        return with_leaves(op, leaves) if leaves else op

    return rewritten(bundle, changed)


def with_other_rows(bundle):
    """Load the first row in place of each."""

    def changed(op):
        leaves = {
            node: dataclasses.replace(
                node, index=node.index.subs(sympy.Symbol("c0", integer=True), 0)
            )
            for node in traverse(op.roots)
            if isinstance(node, Load)
        }
        return with_leaves(op, leaves)

    return rewritten(bundle, changed)


def rewritten(bundle, function):
    return dataclasses.replace(
        bundle,
        ops=tuple(map(function, bundle.ops)),
        groups=tuple(tuple(map(function, group)) for group in bundle.groups),
    )


@pytest.mark.parametrize("change", [with_other_constants, with_other_rows])
@pytest.mark.parametrize("name", ["dead code", "layouts", "fusion", "loop splitting"])
def test_pass_that_changes_the_result_is_named(monkeypatch, name, change):
    passes = [
        dataclasses.replace(entry, run=lambda bundle, run=entry.run: change(run(bundle)))
        if entry.name == name
        else entry
        for entry in pipeline.PASSES
    ]
    monkeypatch.setattr(pipeline, "PASSES", tuple(passes))
    monkeypatch.setenv("TORCH_SPYRE_VALIDATE_PASSES", "0")
    x = torch.rand(9, 70).to("spyre")
    with pytest.raises(VerificationError) as caught:
        call_anew(lambda x: (x * 2).exp(), [x], is_compiled=True)
    assert caught.value.compiler_pass == name
    assert f"the pass {name!r} changes the result" in str(caught.value)


CHILD = """
import torch, warnings
from torch_spyre.debugging import verification
warnings.simplefilter("ignore")
f = torch.compile(lambda x: (x.exp() + x).sum(0))
f(torch.ones(96, 70).half().to("spyre"))
print(sum(verification.summary().unverified.values()))
"""


@pytest.mark.heavy
def test_graph_from_inductors_cache_is_reported(tmp_path, run):
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCH_SPYRE_VERIFY": "1",
        "TORCH_SPYRE_VERIFY_PASSES": "1",
    }
    assert run(CHILD, **environment) == ["0"]
    assert run(CHILD, **environment) == ["1"]
