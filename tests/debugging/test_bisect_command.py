"""`spyre bisect` finds planted errors at every level of the stack."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.heavy

SOFTMAX = """
import torch
f = torch.compile(lambda x: (x * 2).softmax(-1))
print(f(torch.rand(70, 128).half().to("spyre")).cpu().sum())
"""
# A wrong decomposition: kernels are right, and the op is not.
WRONG_OP = """
import torch
from torch_spyre._inductor import decompositions
decompositions.table()[torch.ops.aten.cosh.default] = lambda x: torch.exp(x)
x = torch.linspace(-1, 1, 70).to("spyre")
y = torch.sin(x) + 1
z = torch.cosh(y)
print((z * 2).cpu().sum())
"""
# A pass that loses a factor.
WRONG_PASS = """
import dataclasses
import torch
from torch_spyre._inductor import pipeline
from torch_spyre._inductor.loop_ir import Constant, traverse
from torch_spyre._inductor.loop_rewriting import with_leaves

def lossy(bundle):
    bundle = dead_code.run(bundle)
    def changed(op):
        leaves = {node: dataclasses.replace(node, value=3.0) for node in traverse(op.roots)
                  if isinstance(node, Constant) and node.value == 2}
        return with_leaves(op, leaves) if leaves else op
    return dataclasses.replace(bundle, ops=tuple(map(changed, bundle.ops)))

dead_code = pipeline.PASSES[0]
pipeline.PASSES = (dataclasses.replace(dead_code, run=lossy), *pipeline.PASSES[1:])
f = torch.compile(lambda x: (x * 2).sum())
print(f(torch.ones(9, 70).to("spyre")).cpu())
"""
# Writes a sine in the KTIR of an exponential.
WRONG_EMISSION = """
import dataclasses
import torch
from torch_spyre._inductor.to_ktir import pointwise

form = pointwise.operation_class
def wrong(ktir_form):
    if ktir_form.name == "math.exp":
        ktir_form = dataclasses.replace(ktir_form, name="math.sin")
    return form(ktir_form)
pointwise.operation_class = wrong
print(torch.exp(torch.ones(9, 70).to("spyre")).cpu().sum())
"""
FAILING = """
import torch
torch.ones(3).to("spyre")
raise ValueError("the data is missing")
"""


@pytest.fixture
def bisect(tmp_path):
    def run(text, *arguments, **environment):
        script = tmp_path / "program.py"
        script.write_text(text)
        environment = {
            **os.environ,
            "TORCH_SPYRE_EAGER": "native",
            "TORCH_SPYRE_PROGRAM_CACHE": "off",
            **environment,
        }
        command = [sys.executable, "-m", "torch_spyre.tools.cli", "bisect", "--json"]
        command += [*arguments, str(script)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=1200
        )
        assert done.returncode in (0, 1, 2), done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def verdicts(result):
    return {level["name"]: level["verdict"] for level in result["levels"]}


def test_clean_program_does_not_diverge(bisect):
    code, result = bisect(SOFTMAX)
    assert code == 0 and not result["guilty"]
    assert set(verdicts(result).values()) == {"right"}


def test_injected_fault_is_found_with_its_op_line_and_dump(bisect, tmp_path):
    code, result = bisect(SOFTMAX, SPYRE_EMU_INJECT="flip:exp")
    assert code == 1
    assert result["op"] == "exp" and "flip:exp" in result["guilty"]
    assert "softmax" in result["message"]
    assert result["line"].startswith(f"{tmp_path}/program.py:")
    assert verdicts(result)["its KTIR, interpreted"] == "right"
    assert verdicts(result)["without back-end passes"] == "wrong"
    assert os.path.exists(os.path.join(result["folder"], "replay.py"))


def test_wrong_decomposition_is_found_as_an_op(bisect):
    code, result = bisect(WRONG_OP)
    assert code == 1 and result["op"] == "aten.cosh.default"
    assert result["line"].endswith("program.py:7")


def test_wrong_pass_is_found(bisect):
    code, result = bisect(WRONG_PASS)
    assert code == 1 and result["compiler_pass"] == "dead code"


def test_wrong_ktir_is_found_as_such(bisect):
    code, result = bisect(WRONG_EMISSION)
    assert code == 1 and result["op"] == "exp"
    assert verdicts(result)["its KTIR, interpreted"] == "wrong"
    assert "KTIR" in result["guilty"]


def test_program_that_fails_for_another_reason_is_not_blamed_on_the_card(bisect):
    code, result = bisect(FAILING)
    assert code == 2 and "the data is missing" in result["message"]
