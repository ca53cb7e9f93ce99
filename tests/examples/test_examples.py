"""The programs and the code that a newcomer meets first do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
SESSION = """
import doctest
found = doctest.testfile("session.txt", module_relative=False, optionflags=doctest.ELLIPSIS)
assert found.attempted and not found.failed
"""
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_program(*arguments, folder):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "TORCH_SPYRE_EAGER": "native"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blocks(page, language):
    return [code for kind, code in FENCED.findall(page.read_text()) if kind == language]


def test_first_steps_computes_compiles_generates_and_runs_a_kernel(tmp_path):
    shown = run_program(str(ROOT / "examples/first_steps.py"), folder=tmp_path)
    for sentence in (
        "PyTorch's accelerator is spyre: 32 cores and 112 GiB",
        "device_size [2, 4, 64], stride_map [64, 128, 1], format SEN169_FP16",
        "y.cpu() equals the original: True",
        "torch.compile",
        "same tokens: True",
        "A kernel in KTIR",
    ):
        assert sentence in shown
    softmax, eager, compiled, generation = map(int, re.findall(r"launches: (\d+)", shown))
    assert softmax >= 1
    assert 1 <= compiled < eager
    assert generation > 100
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_tensor_allocate_shows_every_dtype_and_the_error(tmp_path):
    shown = run_program(str(ROOT / "examples/tensor_allocate.py"), folder=tmp_path)
    assert "tensor([1., 2.], dtype=torch.float16, device='spyre:0')" in shown
    assert "device: spyre:0" in shown
    assert re.search(r"torch\.bfloat16 +DataFormats\.SEN169_FP16 +\[16, 64\] +2048", shown)
    assert re.search(r"torch\.int64 +DataFormats\.IEEE_INT32 +\[32, 32\] +8000", shown)
    assert "does not support dtype" in shown


def test_softmax_agrees_with_the_cpu(tmp_path):
    shown = run_program(str(ROOT / "examples/softmax.py"), folder=tmp_path)
    assert "on spyre:0" in shown
    assert shown.endswith("the results on the card and on the CPU match\n")


def test_the_tour_of_the_readme_runs(tmp_path):
    tour, _ = blocks(ROOT / "README.md", "python")
    shown = run_program("-W", "ignore", "-c", tour, folder=tmp_path)
    assert "device_size=[2, 4, 64]" in shown


def test_the_kernel_of_the_readme_runs():
    _, kernel = blocks(ROOT / "README.md", "python")
    *sums, time_us = run_program("-W", "ignore", "-c", kernel, folder=ROOT).splitlines()
    assert sums and float(time_us) > 0


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "pycon")], ids=lambda p: p.stem)
def test_sessions_of_a_page_print_the_documented_output(page, tmp_path, run):
    (tmp_path / "session.txt").write_text("\n".join(blocks(page, "pycon")))
    run(
        SESSION,
        folder=tmp_path,
        TORCH_SPYRE_EAGER="native",
        TORCH_SPYRE_PROGRAM_CACHE=os.environ["TORCH_SPYRE_PROGRAM_CACHE"],
    )


def test_a_custom_kernel_is_an_op_that_trains(tmp_path):
    shown = run_program(str(ROOT / "examples/custom_kernel.py"), folder=tmp_path)
    for sentence in (
        "eager and compiled agree: True",
        "the kernel and PyTorch's multiplication agree",
        "loss falls: True",
    ):
        assert sentence in shown
