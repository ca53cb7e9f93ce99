"""Processes exit cleanly while autograd's threads still hold references."""

import os
import subprocess
import sys

import pytest


def run_to_exit(code, **variables):
    """Run code in a process, assert that it exits cleanly, and return the words it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


# A thread of autograd holds the context of backward() until after backward() returned. Here the
# thread has the last reference to an object whose destructor is slow.
BACKWARD = """
import contextvars, sys, time, torch
class Slow:
    def __del__(self):
        time.sleep(0.2)
value = contextvars.ContextVar("value")
leaves = [torch.ones(3, device=f"spyre:{card}", requires_grad=True) for card in range(CARDS)]
gradients = [torch.ones_like(leaf) for leaf in leaves]
sys.setswitchinterval(5)
for leaf, gradient in zip(leaves, gradients):
    token = value.set(Slow())
    torch.autograd.backward(leaf.view(3), gradient)
    value.reset(token)
print("done", flush=True)
"""


@pytest.mark.parametrize("cards", [1, 3])
def test_a_program_may_end_right_after_backward(cards):
    code = BACKWARD.replace("CARDS", str(cards))
    assert run_to_exit(code, AIU_WORLD_SIZE=str(cards)) == ["done"]


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    "state",
    [
        "torch.set_grad_enabled(False); torch.autograd.set_detect_anomaly(True)",
        "torch.inference_mode().__enter__(); torch.set_default_device('meta')",
        "torch.spyre.set_per_process_memory_fraction(0); torch.set_default_device('spyre')",
    ],
)
def test_the_state_a_program_ends_in_does_not_matter(state):
    code = f"""
import torch
torch.ones(3, device="spyre", requires_grad=True).view(3).backward(torch.ones(3, device="spyre"))
{state}
"""
    assert run_to_exit(code, TORCH_SPYRE_FALLBACK="error") == []


def test_a_forked_process_without_autograds_threads_ends():
    code = """
import os, sys, torch
torch.ones(3, requires_grad=True).sum().backward()
child = os.fork()
if child == 0:
    torch.ones(3, device="spyre")
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_to_exit(code) == ["0"]
