"""The matrix instruction against the golden model's fused multiplications and additions."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from vector_unit import FLOAT_TYPES, INTEGER_TYPES, assert_same_codes, random_codes

from torch_spyre import _C
from torch_spyre.testing import instructions as golden


def as_tensor(codes: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(codes.view(f"int{8 * codes.itemsize}"))


def run(types: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    out = np.zeros((a.shape[0], b.shape[1]), dtype=golden.TYPES[types[3]].code_dtype)
    c_in = None if c is None else as_tensor(c)
    _C._matmul_codes(as_tensor(a), as_tensor(b), c_in, as_tensor(out), types)
    return out


def float_product(
    types: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> np.ndarray:
    left, right = golden.decode_floats(types[0], a), golden.decode_floats(types[1], b)
    sums = golden.decode_floats(types[2], c)
    with np.errstate(all="ignore"):
        for step in range(a.shape[1]):
            exact = golden.fma(left[:, step, None], right[None, step], sums)
            sums = golden.decode_floats("f32", golden.encode_floats("f32", exact))
    return golden.encode_floats(types[3], sums)


def integer_product(
    types: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> np.ndarray:
    # A true i1 counts as 1, not as -1.
    read = golden.unsigned_integers if types[0] == "i1" else golden.signed_integers
    left = read(types[0], a)
    right, sums = golden.signed_integers(types[1], b), golden.signed_integers(types[2], c)
    return golden.encode_integers(types[3], left.dot(right) + sums)


def random_matrix(name: str, rows: int, columns: int, seed: int) -> np.ndarray:
    """Return ordinary values, some of them replaced by random bits."""
    kind = golden.TYPES[name]
    random = np.random.default_rng(seed)
    anything = random.choice(random_codes(name, 256, seed), (rows, columns))
    if not kind.is_float:
        return anything
    ordinary = golden.encode_floats(name, random.normal(size=(rows, columns)))
    return np.where(random.random((rows, columns)) < 0.01, anything, ordinary)


@pytest.mark.parametrize("m", [2, 16])
@pytest.mark.parametrize("b_type", FLOAT_TYPES)
@pytest.mark.parametrize("a_type", FLOAT_TYPES)
def test_float_matmul_matches_the_golden_model(a_type, b_type, m):
    for c_type in FLOAT_TYPES:
        types = (a_type, b_type, "f32", c_type)
        a, b = random_matrix(a_type, m, 37, 1), random_matrix(b_type, 37, 21, 2)
        c = random_matrix("f32", m, 21, 3)
        expected = float_product(types, a, b, c)
        assert_same_codes(c_type, run(types, a, b, c).ravel(), expected.ravel())
        transposed = np.ascontiguousarray(b.T).T
        assert_same_codes(c_type, run(types, a, transposed, c).ravel(), expected.ravel())


@pytest.mark.parametrize("c_type", INTEGER_TYPES[1:])
@pytest.mark.parametrize("a_type", INTEGER_TYPES)
def test_integer_matmul_wraps_as_the_golden_model(a_type, c_type):
    types = (a_type, "i16", "i32", c_type)
    a, b = random_matrix(a_type, 5, 37, 1), random_matrix("i16", 37, 21, 2)
    c = random_matrix("i32", 5, 21, 3)
    np.testing.assert_array_equal(run(types, a, b, c), integer_product(types, a, b, c))


# Inputs from numpy: torch's random values depend on the instruction set.
PRINT_DIGEST = """
import hashlib, numpy as np, torch
from torch_spyre import _C
torch.spyre.init()
random = np.random.default_rng(0)
digest = hashlib.sha256()
for m, n, k in (1, 3000, 900), (70, 600, 300), (900, 50, 100):
    a, b = (torch.from_numpy(random.normal(size=size)).float() for size in ((m, k), (k, n)))
    for name, dtype in ("bf16", torch.bfloat16), ("f32", torch.float32):
        out = torch.empty(m, n, dtype=dtype)
        _C._matmul_codes(a.to(dtype), b.to(dtype), None, out, (name,) * 4)
        digest.update(out.view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
"""


def test_bits_depend_neither_on_threads_nor_on_the_instruction_set():
    def digest(capability: str, threads: int) -> str:
        settings = {"ATEN_CPU_CAPABILITY": capability, "SPYRE_EMU_THREADS": str(threads)}
        program = [sys.executable, "-c", PRINT_DIGEST]
        done = subprocess.run(
            program, env=os.environ | settings, capture_output=True, text=True, check=True
        )
        return done.stdout

    expected = digest("default", 1)
    assert expected.strip()
    for capability, threads in (("avx2", 2), ("avx512", 1), ("avx512", 2)):
        assert digest(capability, threads) == expected


def test_mistakes_are_named():
    a, b, out = (torch.zeros(size) for size in ((2, 3), (3, 4), (2, 4)))
    types = ("f32",) * 4
    with pytest.raises(ValueError, match="does not give"):
        _C._matmul_codes(a, a, None, out, types)
    with pytest.raises(ValueError, match="does not give"):
        _C._matmul_codes(a, b, a, out, types)
    with pytest.raises(ValueError, match="no element type is called 'f64'"):
        _C._matmul_codes(a, b, None, out, ("f64",) * 4)
    with pytest.raises(ValueError, match="has 2 bytes"):
        _C._matmul_codes(a, b, None, out, ("f16",) * 4)
    with pytest.raises(ValueError, match="expected a matrix in host memory"):
        _C._matmul_codes(a[0], b, None, out, types)
    with pytest.raises(ValueError, match="floats and integers do not mix"):
        _C._matmul_codes(a, b.int(), None, out, ("f32", "i32", "f32", "f32"))
    with pytest.raises(ValueError, match="overlap in memory"):
        _C._matmul_codes(a, b, None, out[:1].expand(2, 4), types)
