"""The instruction of random words against its golden model."""

import subprocess
import sys

import numpy as np
import pytest
from vector_unit import assert_same_codes, run

from torch_spyre.testing import instructions as golden

# Of the published test vectors: counter and key, and the first word of the block.
VECTORS = [
    ((0,) * 6, 0x6627E8D5),
    ((0xFFFFFFFF,) * 6, 0x408F276D),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
        0xD16CFE09,
    ),
]


def random_words(count):
    random = np.random.default_rng(0)
    return [random.integers(0, 1 << 32, count, dtype=np.uint32) for _ in range(6)]


@pytest.mark.parametrize(("operands", "expected"), VECTORS)
def test_the_published_vectors(operands, expected):
    words = [np.array([operand], dtype=np.uint32) for operand in operands]
    assert run("philox", "i32", "i32", *words).tolist() == [expected]


@pytest.mark.parametrize("count", [1, 7, 16, 17, 1000])
def test_any_number_of_random_operands(count):
    words = random_words(count)
    expected = golden.run("philox", "i32", "i32", *words)
    assert_same_codes("i32", run("philox", "i32", "i32", *words), expected)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_other_instruction_sets_give_the_same_words(capability, monkeypatch):
    """On a host with AVX-512 this process tests it."""
    script = (
        "import numpy as np, torch\n"
        "from test_philox_instruction import random_words\n"
        "from vector_unit import run\n"
        "print(run('philox', 'i32', 'i32', *random_words(100)).tolist())"
    )
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    expected = golden.run("philox", "i32", "i32", *random_words(100))
    assert output.stdout.strip().splitlines()[-1] == str(expected.tolist())
