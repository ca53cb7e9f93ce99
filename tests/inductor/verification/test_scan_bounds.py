"""Bounds of scans contain what float32 scans compute in any grouping of the elements."""

import pytest
import sympy
import torch

from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.scans import scan
from torch_spyre.errors import NoReferenceError

OUTER, COLUMN, INNER, SCANNED = sympy.symbols("c0 c1 c2 r0", integer=True)
COMBINES = {
    "add": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "logaddexp": torch.logaddexp,
}


def by_doubling(combine, x, dim):
    """Combine each element with the one at distance 1, 2, 4 and so on before it."""
    distance = 1
    while distance < x.shape[dim]:
        count = x.shape[dim] - distance
        earlier, later = x.narrow(dim, 0, count), x.narrow(dim, distance, count)
        x = torch.cat([x.narrow(dim, 0, distance), combine(earlier, later)], dim)
        distance *= 2
    return x


def one_by_one(combine, x, dim):
    parts = list(x.split(1, dim))
    for position in range(1, len(parts)):
        parts[position] = combine(parts[position - 1], parts[position])
    return torch.cat(parts, dim)


def scanned(combine, bounds, length):
    grid = Grid({OUTER: 5, COLUMN: length, INNER: 3, SCANNED: length})
    # The input has the scanned loop where the result has the column.
    operand = bounds.map(lambda values: values.permute(0, 2, 1).reshape(5, 1, 3, length))
    result = scan(combine, operand, grid, [SCANNED], [COLUMN])
    assert result.shape == (5, length, 3, 1)
    return result.map(lambda values: values.squeeze(-1))


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("length", [1, 9, 70])
@pytest.mark.parametrize("order", [by_doubling, one_by_one])
def test_float32_scans_are_within_the_bounds(combine, length, order):
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(5, length, 3, generator=generator)
    result = scanned(combine, Bounds.exact(x.double()), length)
    assert bool(result.contains(order(COMBINES[combine], x, 1).double()).all())
    # The bounds of extremes are exact, others as wide as some roundings.
    width = (result.high - result.low).abs().max()
    assert width <= (0 if combine in ("max", "min") else 1e-3 * (1 + result.high.abs().max()))


@pytest.mark.parametrize("combine", COMBINES)
def test_scans_of_intervals_contain_those_of_points(combine):
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(5, 20, 3, generator=generator).double()
    high = low + torch.rand(low.shape, generator=generator).double() ** 4
    result = scanned(combine, Bounds(low, high), 20)
    for _ in range(20):
        point = low + torch.rand(low.shape, generator=generator).double() * (high - low)
        assert bool(result.contains(one_by_one(COMBINES[combine], point, 1)).all())


def test_loops_that_are_split_are_scanned_as_one():
    outer, inner, high, low = sympy.symbols("r0 r1 c0 c1", integer=True)
    grid = Grid({high: 4, low: 3, outer: 3, inner: 4})
    x = torch.arange(12).double()
    result = scan("add", Bounds.exact(x.view(1, 1, 3, 4)), grid, [outer, inner], [high, low])
    assert result.shape == (4, 3, 1, 1)
    assert bool(result.contains(x.cumsum(0).view(4, 3, 1, 1)).all())


def test_integers_are_exact():
    x = torch.tensor([2**31 - 1, 5, -7]).view(1, 3, 1).expand(5, 3, 3)
    result = scanned("add", Bounds.exact(x), 3)
    assert result.is_exact and result.low[0, :, 0].tolist() == [2**31 - 1, 2**31 + 4, 2**31 - 3]


def test_overflow_is_unknown():
    x = torch.tensor([1e30, 1e30, 1e-30]).double().view(1, 3, 1).expand(5, 3, 3)
    result = scanned("mul", Bounds.exact(x), 3)
    assert result.contains(torch.full((5, 3, 3), torch.inf).double())[0, :, 0].tolist() == [
        False,
        True,
        True,
    ]


def test_other_combinations_have_no_reference():
    with pytest.raises(NoReferenceError, match="a scan with xor"):
        scanned("xor", Bounds.exact(torch.zeros(5, 1, 3).double()), 1)
