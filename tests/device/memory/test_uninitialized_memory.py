"""Deterministic mode fills memory that a program could read uninitialised, as on the CPU."""

import pytest
import torch


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


DTYPES = [
    *(torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.bool),
]
CALLS = {
    "empty": lambda device, dtype: torch.empty(3, 4, device=device, dtype=dtype),
    "empty_like": lambda device, dtype: torch.empty_like(torch.zeros(3, device=device).to(dtype)),
    "empty_strided": lambda device, dtype: torch.empty_strided(
        (3, 4), (1, 3), device=device, dtype=dtype
    ),
    "new_empty": lambda device, dtype: torch.zeros(1, device=device).to(dtype).new_empty(3),
    "resize_": lambda device, dtype: torch.zeros(2, device=device).to(dtype).resize_(5),
    "resize_ to a matrix": lambda device, dtype: (
        torch.zeros(2, 3, device=device).to(dtype).resize_(5, 2)
    ),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_uninitialized_elements_are_filled(name, dtype):
    expected, actual = CALLS[name]("cpu", dtype), CALLS[name]("spyre", dtype)
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_int64_is_filled_with_the_largest_stored_integer():
    assert torch.empty(2, device="spyre", dtype=torch.int64).tolist() == [2**31 - 1] * 2


def test_nothing_is_filled_on_request():
    launches = torch.spyre.counters()["launches"]
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        torch.empty(3, device="spyre")
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.spyre.counters()["launches"] == launches
