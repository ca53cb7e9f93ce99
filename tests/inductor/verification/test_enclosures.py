"""Bounds of an op contain its result for all operands within their bounds."""

import pytest
import torch

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_table import (
    INDEX,
    RECORDS,
    REDUCTION_OPS,
    Emission,
    Kind,
    OperandClass,
)
from torch_spyre._inductor.verification import reductions
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.enclosures import RULES, enclose
from torch_spyre._inductor.verification.value_formats import rounded, value_format

FLOAT32, INT32 = (value_format(f) for f in (DataFormats.IEEE_FP32, DataFormats.IEEE_INT32))
# Ops on all bits of an integer. They have references of exact operands, and no bounds.
WHOLE_WORDS = ("mulhigh", "philox")
ELEMENTWISE = [
    (record, operand_class)
    for record in RECORDS.values()
    for operand_class, form in record.ktir.items()
    if form.emission is not Emission.DEDICATED
    and record.reduction is None
    and record.name not in WHOLE_WORDS
]
CONSTANTS = {"clip": (-1.0, 1.5), "softplus": (2.0, 20.0)}
COUNT, POINTS = 400, 12


def name_of(value):
    return value.value if isinstance(value, OperandClass) else value.name


def random_interval(generator, operand_class, *, is_exact):
    if operand_class is OperandClass.FLOAT:
        middle = torch.randn(COUNT, generator=generator, dtype=torch.float64) * 3
        radius = torch.rand(COUNT, generator=generator, dtype=torch.float64) ** 6 * 4
        low, high = middle - radius, middle + radius
    else:
        highest = 2 if operand_class is OperandClass.BOOL else 20
        lowest = 0 if operand_class is OperandClass.BOOL else -highest
        low = torch.randint(lowest, highest, (COUNT,), generator=generator)
        width = torch.randint(0, 6, (COUNT,), generator=generator)
        high = (low + width).clamp(max=highest - 1)
    if operand_class is OperandClass.BOOL:
        low, high = low.double(), high.double()
    return Bounds.exact(low) if is_exact else Bounds(low, high)


def points_of(bounds, generator):
    """Yield values within the bounds, the ends among them."""
    yield from (bounds.low, bounds.high)
    for _ in range(POINTS):
        if bounds.low.is_floating_point():
            share = torch.rand(COUNT, generator=generator, dtype=torch.float64)
            yield bounds.low + share * (bounds.high - bounds.low)
        else:
            width = bounds.high - bounds.low + 1
            yield bounds.low + torch.randint(1 << 30, (COUNT,), generator=generator) % width


@pytest.mark.parametrize("num_exact", [0, 1])
@pytest.mark.parametrize(("record", "operand_class"), ELEMENTWISE, ids=name_of)
def test_results_of_points_are_within_the_bounds(record, operand_class, num_exact):
    generator = torch.Generator().manual_seed(3)
    constants = CONSTANTS.get(record.name, ())
    format = INT32 if operand_class is OperandClass.INTEGER else FLOAT32
    classes = [operand_class] * record.arity
    if record.kind is Kind.SELECTION:
        classes[0] = OperandClass.BOOL
    operands = [
        random_interval(generator, kind, is_exact=position >= record.arity - num_exact)
        for position, kind in enumerate(classes)
    ]
    bounds = enclose(record, operands, constants, format)
    if record.exactness.half:
        # Rounding adds the error of the reference, which the bounds of exact results lack.
        bounds = rounded(bounds, format)
    for values in zip(*(points_of(operand, generator) for operand in operands), strict=True):
        exact = [Bounds.exact(value) for value in values]
        point = enclose(record, exact, constants, format)
        if record.exactness.half:
            point = rounded(point, format)
        is_inside = (point.low >= bounds.low) & (point.high <= bounds.high)
        is_nan = point.low.isnan()
        is_unbounded = bounds.is_unbounded()
        assert bool((is_inside | is_unbounded | (is_nan & bounds.may_be_nan)).all())


def test_product_of_an_interval_around_zero_and_infinity_may_be_nan():
    around_zero = Bounds(torch.tensor([-1.0]).double(), torch.tensor([1.0]).double())
    infinite = Bounds(torch.tensor([-torch.inf]).double(), torch.tensor([2.0]).double())
    result = enclose(RECORDS["mul"], [around_zero, infinite], (), FLOAT32)
    assert bool(result.contains(torch.tensor([torch.nan]).double()).all())


def test_every_elementwise_op_states_its_extremes():
    for record, _ in ELEMENTWISE:
        assert record.extremes is not None, record.name
        if record.extremes.rule is not None:
            assert record.extremes.rule in RULES


def test_every_rule_is_used():
    used = {record.extremes.rule for record in RECORDS.values() if record.extremes is not None}
    assert used - {None} == set(RULES)


def test_ops_without_extremes_have_a_reduction_or_move_data():
    for record in RECORDS.values():
        if record.ktir and record.extremes is None:
            assert (
                record.reduction is not None
                or record.name in (INDEX, *WHOLE_WORDS)
                or record.kind in (Kind.DATA_MOVEMENT, Kind.CONVERSION, Kind.MULTI_LOOP)
            )


def in_another_order(values, generator):
    """Return a float32 sum in a random order."""
    order = torch.randperm(len(values), generator=generator)
    total = torch.zeros((), dtype=torch.float32)
    for value in values[order].float():
        total = total + value
    return total.double()


@pytest.mark.parametrize("count", [1, 7, 200])
def test_sums_in_any_order_are_within_the_bounds(count):
    generator = torch.Generator().manual_seed(count)
    values = torch.randn(count, generator=generator).double()
    bounds = reductions.reduce(RECORDS["sum"], Bounds.exact(values), [0], (), cores=1)
    for _ in range(20):
        assert bool(bounds.contains(in_another_order(values, generator)).all())
    assert (
        float(bounds.high - bounds.low) <= 4 * count * 2.0**-24 * float(values.abs().sum()) + 1e-30
    )


def test_matmul_of_intervals_contains_those_of_points():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(6, 5, 1, generator=generator).double()
    right = torch.randn(1, 5, 7, generator=generator).double()
    radius = 0.1
    bounds = reductions.matmul(
        Bounds(left - radius, left + radius), Bounds.exact(right), [1], (6, 5, 7), cores=2
    )
    for _ in range(50):
        share = 2 * torch.rand(left.shape, generator=generator).double() - 1
        product = ((left + radius * share) * right).sum(1, keepdim=True)
        assert bool(bounds.contains(product).all())


@pytest.mark.parametrize("name", sorted(REDUCTION_OPS - {"mean"}))
def test_reductions_of_intervals_contain_those_of_points(name):
    generator = torch.Generator().manual_seed(1)
    low = torch.randn(50, 9, generator=generator).double()
    high = low + torch.rand(50, 9, generator=generator).double() ** 4
    record = RECORDS[name]
    bounds = reductions.reduce(record, Bounds(low, high), [1], (), cores=1)
    for _ in range(30):
        point = low + torch.rand(50, 9, generator=generator).double() * (high - low)
        result = record.reference(point, 1).unsqueeze(1)
        assert bool(bounds.contains(result.to(bounds.low.dtype)).all())


def test_index_of_an_extreme_prefers_nan_and_then_the_first():
    values = torch.tensor([[1.0, 3.0, 3.0], [1.0, torch.nan, 2.0], [torch.inf, torch.nan, 0.0]])
    bounds = reductions.reduce(RECORDS["argmax"], Bounds.exact(values.double()), [1], (), cores=1)
    assert bounds.low.squeeze(1).tolist() == bounds.high.squeeze(1).tolist() == [1, 1, 1]
