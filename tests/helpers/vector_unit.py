"""Run one instruction of the engine on codes, and bound the error of its float results."""

import numpy as np
import torch

from torch_spyre import _C
from torch_spyre.testing import instructions as golden

FLOAT_TYPES = ["f16", "bf16", "f32", "f8E4M3FN", "f8E5M2FNUZ"]
SMALL_FLOAT_TYPES = [name for name in FLOAT_TYPES if name != "f32"]
INTEGER_TYPES = ["i1", "i8", "i16", "i32", "i64"]
INPUTS = {name: inputs for name, inputs, _ in _C._vector_ops()}
UNARY_FLOAT_OPS = [name for name in golden.FLOAT_FUNCTIONS if INPUTS[name] == 1]


def run(name: str, operand_type: str, result_type: str, *codes: np.ndarray) -> np.ndarray:
    tensors = [torch.from_numpy(array.view(f"int{8 * array.itemsize}")) for array in codes]
    result = _C._vector_op(name, operand_type, result_type, tensors)
    return result.numpy().view(golden.TYPES[result_type].code_dtype)


def every_code(name: str) -> np.ndarray:
    kind = golden.TYPES[name]
    return np.arange(1 << kind.bits, dtype=kind.code_dtype)


def random_codes(name: str, count: int, seed: int) -> np.ndarray:
    """Return random bit patterns, ordinary values and limits; floats include NaN and infinity."""
    kind = golden.TYPES[name]
    random = np.random.default_rng(seed)
    if name == "i1":
        return random.integers(0, 2, count, dtype=np.uint8)
    anything = random.integers(0, 1 << kind.bits, count, dtype=kind.code_dtype)
    if kind.is_float:
        numbers = random.normal(size=count) * 2.0 ** random.integers(-6, 7, count)
        ordinary = golden.encode_floats(name, numbers)
    else:
        ordinary = golden.encode_integers(name, random.integers(-9, 10, count).astype(object))
    middle = 1 << (kind.bits - 1)
    limits = np.array([0, 1, 2, -1, -2, middle, middle - 1], dtype=object)
    edges = golden.encode_integers(name, limits)
    return np.concatenate([anything, ordinary, random.permutation(np.tile(edges, 7))])


def random_inputs(name: str, operand_type: str, count: int) -> list[np.ndarray]:
    inputs = [random_codes(operand_type, count, seed) for seed in range(INPUTS[name])]
    if name == "select":
        inputs[0] = random_codes("i1", len(inputs[1]), 99)[: len(inputs[1])]
    return inputs


def is_nan(type_name: str, codes: np.ndarray) -> np.ndarray:
    if not golden.TYPES[type_name].is_float:
        return np.zeros(codes.shape, dtype=bool)
    return np.isnan(golden.decode_floats(type_name, codes))


def assert_same_codes(type_name: str, actual: np.ndarray, expected: np.ndarray) -> None:
    """Assert that codes are equal; all NaN codes compare equal."""
    differs = (actual != expected) & ~(is_nan(type_name, actual) & is_nan(type_name, expected))
    first = np.flatnonzero(differs)[:4]
    assert not len(first), (
        f"{differs.sum()} of {differs.size} differ, first at {first}: "
        f"{actual[first]} instead of {expected[first]}"
    )


def assert_within_ulps(
    type_name: str, actual: np.ndarray, exact: np.ndarray, max_ulps: float
) -> None:
    """Assert that values are within `max_ulps`, and NaN, infinity and signs of zero are exact."""
    expected = golden.encode_floats(type_name, exact)
    actual_values = golden.decode_floats(type_name, actual)
    expected_values = golden.decode_floats(type_name, expected)
    np.testing.assert_array_equal(np.isnan(actual_values), np.isnan(expected_values))
    with np.errstate(invalid="ignore"):
        ulps = np.abs(actual_values - exact) / golden.ulp(type_name, exact)
    # A result that overflows to the maximum of the format or to infinity must be exact.
    beyond = np.isinf(exact) | np.isinf(expected_values) | (np.abs(exact) >= largest(type_name))
    ulps = np.where(beyond, np.where(actual_values == expected_values, 0, np.inf), ulps)
    number = ~np.isnan(expected_values)
    assert (np.signbit(actual_values) == np.signbit(expected_values))[number].all()
    worst = int(np.argmax(np.where(number, ulps, -1)))
    assert ulps[worst] <= max_ulps, (
        f"{actual_values[worst]!r} is {ulps[worst]:.4g} ulps from {exact[worst]!r}"
    )


def largest(type_name: str) -> float:
    if type_name == "f32":
        return float(np.finfo(np.float32).max)
    values = golden.values_of_codes(type_name)
    return float(np.max(values[np.isfinite(values)]))
