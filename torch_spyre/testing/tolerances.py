"""How far a result of the card may be from the CPU's: derived from the formats, in one place."""

import torch

from torch_spyre.dtypes import RECORDS

# One unit in the last place of results, for a value of 1.
LAST_PLACE = {
    dtype: record.unit_in_last_place
    for dtype, record in RECORDS.items()
    if record.unit_in_last_place is not None
}

# Where an op is composed of several, each step may round once.
ROUNDINGS = 4
# Samples fold up to some hundred elements, each order of which rounds otherwise in float32.
ROUNDINGS_OF_FLOAT32 = 84


def tolerance(dtype: torch.dtype, roundings: int = ROUNDINGS) -> float:
    """What so many roundings to nearest may add up to, relative to the largest value involved."""
    if dtype is torch.float32:
        roundings = max(roundings, ROUNDINGS_OF_FLOAT32)
    return roundings * LAST_PLACE.get(dtype, 2.0**-22) / 2


def difference(
    got: torch.Tensor, wanted: torch.Tensor, roundings: int = ROUNDINGS, room: float = 0.0
) -> str | None:
    """What sets two host tensors of one shape apart; None if nothing does but rounding.

    Floats may differ by the roundings, relative to the value itself or to the largest of the
    tensor: sums and products are as exact as their largest term. `room` is added to that.
    """
    if torch.equal(got, wanted):
        return None
    if not wanted.dtype.is_floating_point:
        bad = got != wanted
        return _worst(got, wanted, bad, bad.double()) if bool(bad.any()) else None
    one, other = got.double(), wanted.double()
    allowed = tolerance(wanted.dtype, roundings)
    finite = other[other.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 1.0
    distance = (one - other).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    near = distance <= allowed * (other.abs() + scale) + room
    bad = ~(same | (near & other.isfinite()))
    if not bool(bad.any()):
        return None
    return _worst(got, wanted, bad, distance.nan_to_num(nan=torch.inf))


def _worst(
    got: torch.Tensor, wanted: torch.Tensor, bad: torch.Tensor, distance: torch.Tensor
) -> str:
    flat = torch.where(bad, distance, -1.0).flatten().argmax()
    where = tuple(int(i) for i in torch.unravel_index(flat, bad.shape))
    return (
        f"{int(bad.sum())} of {bad.numel()} elements differ; the worst at {where}: "
        f"got {got[where].item()!r}, expected {wanted[where].item()!r}"
    )
