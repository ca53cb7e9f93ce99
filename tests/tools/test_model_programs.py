"""Benchmarks and examples that run whole models print the documented output."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[2]
# The benchmark with one shape that compiles in seconds.
TINY_BENCHMARK = """
import sys, transformers
sys.argv = ["models.py", "--only", "tiny", "--prompt", "8", "--new-tokens", "2", "--rounds", "1"]
sys.path.insert(0, "benchmarks")
import models
models.SHAPES["tiny"] = models.sized_config(transformers.LlamaConfig, 1, 128, 128, 2, 2)
models.main()
"""


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "TORCH_SPYRE_EAGER": "native", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.heavy
def test_model_benchmark_prints_rates_next_to_the_cpu_in_80_columns():
    shown = run("-c", TINY_BENCHMARK)
    assert shown.startswith("tiny ") and max(map(len, shown.splitlines())) <= 80
    rows = [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines() if "│" in line]
    assert [row[:2] for row in rows] == [
        [step, mode] for step in ("prefill", "decode") for mode in ("CPU", "eager", "compiled")
    ]
    for _, mode, rate, ratio, *card in rows:
        assert float(rate) > 0 and float(ratio) > 0
        if mode != "CPU":
            gigabytes, modelled, _ = card
            assert float(gigabytes) > 0
            assert float(modelled.replace(",", "")) > 1000


@pytest.mark.heavy
def test_large_model_is_loaded_in_chunks_and_decodes():
    words = ("--layers", "1", "--prompt", "4", "--new-tokens", "2")
    shown = run("examples/large_model.py", *words)
    assert "granite-3.3-2b: 1 layers, 0.32 GB" in shown
    tokens = re.search(r"tokens: \[(.*)\]", shown)[1].split(", ")
    assert len(tokens) == 3 and all(0 <= int(token) < 49159 for token in tokens)
    assert re.search(r"prefill of 4: [\d.]+ s, [\d.]+ ms modelled", shown)
    assert re.search(r"a decoded token: [\d.]+ s on average, [\d.]+ ms modelled", shown)
    # Weights of 0.3 GiB next to PyTorch and the compiler, never two copies.
    assert 0.3 < float(re.search(r"peak memory: ([\d.]+) GiB", shown)[1]) < 2.5
