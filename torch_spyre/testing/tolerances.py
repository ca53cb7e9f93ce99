"""Tolerances of comparisons with the CPU, derived from the element formats."""

import torch

from torch_spyre.dtypes import RECORDS

# The ulp of 1.
ULP_OF_ONE = {
    dtype: record.unit_in_last_place
    for dtype, record in RECORDS.items()
    if record.unit_in_last_place is not None
}

# An op may consist of several kernels, each of which rounds once.
ROUNDINGS = 4
# Samples reduce up to some hundred elements, and float32 rounding depends on the order.
ROUNDINGS_OF_FLOAT32 = 84


def tolerance(dtype: torch.dtype, roundings: int = ROUNDINGS) -> float:
    """Return the maximum error of this many roundings, relative to the largest value involved."""
    if dtype is torch.float32:
        roundings = max(roundings, ROUNDINGS_OF_FLOAT32)
    return roundings * ULP_OF_ONE.get(dtype, 2.0**-22) / 2


def difference(
    actual: torch.Tensor,
    expected: torch.Tensor,
    roundings: int = ROUNDINGS,
    extra_error: float = 0.0,
) -> str | None:
    """Return how two host tensors of the same shape differ, or None if only by rounding.

    Floats may differ by the roundings, relative to the value itself or to the largest of the
    tensor: a sum is only as accurate as its largest term. `extra_error` is added to that.
    """
    if torch.equal(actual, expected):
        return None
    if not expected.dtype.is_floating_point:
        is_wrong = actual != expected
        return (
            _describe_worst(actual, expected, is_wrong, is_wrong.double())
            if bool(is_wrong.any())
            else None
        )
    result, reference = actual.double(), expected.double()
    allowed = tolerance(expected.dtype, roundings)
    finite = reference[reference.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 1.0
    distance = (result - reference).abs()
    is_same = (result == reference) | (result.isnan() & reference.isnan())
    is_near = distance <= allowed * (reference.abs() + scale) + extra_error
    is_wrong = ~(is_same | (is_near & reference.isfinite()))
    if not bool(is_wrong.any()):
        return None
    return _describe_worst(actual, expected, is_wrong, distance.nan_to_num(nan=torch.inf))


def _describe_worst(
    actual: torch.Tensor, expected: torch.Tensor, is_wrong: torch.Tensor, distance: torch.Tensor
) -> str:
    flat = torch.where(is_wrong, distance, -1.0).flatten().argmax()
    index = tuple(int(i) for i in torch.unravel_index(flat, is_wrong.shape))
    return (
        f"{int(is_wrong.sum())} of {is_wrong.numel()} elements differ; the worst at {index}: "
        f"got {actual[index].item()!r}, expected {expected[index].item()!r}"
    )
