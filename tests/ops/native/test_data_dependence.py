"""The device time of an op depends on data only in the ways that docs/contract.md lists."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torch_spyre.ops.scalar_arguments import MAX_CONSTANTS

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

CONTRACT = Path(__file__).resolve().parents[3] / "docs" / "contract.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
SHAPE = (6, 70)
NUM_ELEMENTS = 6 * 70


@dataclass(frozen=True)
class Case:
    """An op, arguments of equal shapes, and arguments for which the table allows another time."""

    op: Callable[..., Any]
    arguments: tuple[tuple[torch.Tensor, ...], ...]
    other_arguments: tuple[torch.Tensor, ...] = ()


def values(seed, shape=SHAPE, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def integers(seed, high, shape, dtype=torch.int64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(high, shape, generator=generator).to(dtype)


def mask(seed, count):
    """Return a mask with `count` elements that are True."""
    order = torch.randperm(NUM_ELEMENTS, generator=torch.Generator().manual_seed(seed))
    return (order < count).reshape(SHAPE)


def with_unique(seed, count):
    """Return integers of `count` unique values, in runs, so that neighbours are equal."""
    offsets = integers(seed, 1000, (1,), torch.int32)
    return offsets + 3 * (torch.arange(NUM_ELEMENTS, dtype=torch.int32) * count // NUM_ELEMENTS)


def with_maximum(seed, maximum):
    x = integers(seed, maximum, (NUM_ELEMENTS,))
    x[seed] = maximum
    return x


def assigned(x, is_selected, y):
    x[is_selected] = y
    return x


def draw_samples(weights):
    return torch.multinomial(weights, 2, generator=torch.Generator("spyre").manual_seed(1))


def with_zero():
    return values(3).index_fill(1, torch.tensor(7), 0)


def with_nan():
    return values(3).index_fill(1, torch.tensor(7), float("nan"))


def gradient_of(op, position=0):
    def gradient(*arguments):
        arguments[position].requires_grad_()
        return torch.autograd.grad(op(*arguments).sum(), arguments[position])

    return gradient


SELECTIONS = tuple((values(seed), mask(seed, 35)) for seed in (1, 2))
OTHER_SELECTION = (values(3), mask(3, 135))
INDICES = tuple((values(seed), integers(seed, 6, (6, 5))) for seed in (1, 2))
FLOATS = tuple((values(seed),) for seed in (1, 2))
PAIRS = ((values(1), values(1)), (values(1), values(2)))

CASES = {
    "nonzero": Case(torch.nonzero, ((mask(1, 35),), (mask(2, 35),)), (mask(3, 135),)),
    "argwhere": Case(torch.argwhere, ((mask(1, 35),), (mask(2, 35),)), (mask(3, 135),)),
    "masked_select": Case(torch.masked_select, SELECTIONS, OTHER_SELECTION),
    "x[mask]": Case(lambda x, is_selected: x[is_selected], SELECTIONS, OTHER_SELECTION),
    "x[mask] = y": Case(
        assigned,
        tuple((*selection, values(4, (35,))) for selection in SELECTIONS),
        (*OTHER_SELECTION, values(4, (135,))),
    ),
    "unique": Case(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        ((with_unique(1, 35),), (with_unique(2, 35),)),
        (with_unique(3, 135),),
    ),
    "unique_consecutive": Case(
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        ((with_unique(1, 35),), (with_unique(2, 35),)),
        (with_unique(3, 135),),
    ),
    "repeat_interleave": Case(
        lambda x, repeats: x.repeat_interleave(repeats, 0),
        (
            (values(1), torch.tensor([3, 0, 1, 5, 2, 1])),
            (values(2), torch.tensor([1, 1, 7, 0, 1, 2])),
        ),
        (values(3), torch.tensor([30, 0, 1, 5, 2, 100])),
    ),
    "bincount": Case(
        torch.bincount, ((with_maximum(1, 50),), (with_maximum(2, 50),)), (with_maximum(3, 5000),)
    ),
    "one_hot": Case(
        F.one_hot, ((with_maximum(1, 50),), (with_maximum(2, 50),)), (with_maximum(3, 500),)
    ),
    "gradient of masked_scatter": Case(
        gradient_of(torch.masked_scatter, 2),
        tuple((*selection, values(4)) for selection in SELECTIONS),
        (*OTHER_SELECTION, values(4)),
    ),
    "gradient of prod": Case(gradient_of(torch.prod), FLOATS, (with_zero(),)),
    "gradient of cumprod": Case(gradient_of(lambda x: x.cumprod(0)), FLOATS, (with_zero(),)),
    "gradient of max": Case(gradient_of(torch.max), FLOATS, (with_nan(),)),
    "gradient of median": Case(gradient_of(torch.median), FLOATS, (with_nan(),)),
    "equal": Case(torch.equal, PAIRS),
    "allclose": Case(torch.allclose, PAIRS),
    "isin": Case(
        torch.isin,
        (
            (integers(1, 9, SHAPE), integers(2, 9, (5,))),
            (integers(3, 99, SHAPE), integers(4, 99, (5,))),
        ),
    ),
    "multinomial": Case(draw_samples, ((values(1).abs(),), (values(2).abs(),))),
    "nonzero_static": Case(
        lambda x: torch.nonzero_static(x, size=90), ((mask(1, 35),), (mask(2, 135),))
    ),
    "masked_fill": Case(
        lambda x, is_selected: x.masked_fill(is_selected, 2.0),
        ((values(1), mask(1, 35)), (values(2), mask(2, 135))),
    ),
    "masked_scatter": Case(
        torch.masked_scatter,
        ((values(1), mask(1, 35), values(3)), (values(2), mask(2, 135), values(4))),
    ),
    "where": Case(
        torch.where, ((mask(1, 35), values(1), values(2)), (mask(2, 135), values(3), values(4)))
    ),
    "gather": Case(lambda x, index: x.gather(0, index), INDICES),
    "index_select": Case(lambda x, index: x.index_select(0, index[0]), INDICES),
    "index_put": Case(lambda x, index: x.index_put((index[0],), x[:5]), INDICES),
    "index_add": Case(lambda x, index: x.index_add(0, index[0], x[:5]), INDICES),
    "scatter_add": Case(lambda x, index: x.scatter_add(0, index, x), INDICES),
    "embedding": Case(lambda x, index: F.embedding(index, x), INDICES),
    "embedding_bag": Case(
        lambda x, index, offsets: F.embedding_bag(index[:, 0], x, offsets),
        ((*INDICES[0], torch.tensor([0, 2, 4])), (*INDICES[1], torch.tensor([0, 0, 5]))),
    ),
    "grouped_mm": Case(
        lambda x, y, ends: F.grouped_mm(x, y, offs=ends),
        tuple(
            (
                values(seed, (32, 64), torch.bfloat16),
                values(seed, (2, 64, 64), torch.bfloat16),
                torch.tensor(ends, dtype=torch.int32),
            )
            for seed, ends in ((1, [16, 32]), (2, [0, 32]))
        ),
    ),
    "sort": Case(torch.sort, FLOATS),
    "topk": Case(lambda x: x.topk(5), FLOATS),
    "argmax": Case(torch.argmax, FLOATS),
    "searchsorted": Case(
        torch.searchsorted, ((torch.arange(70.0), values(1)), (torch.zeros(70), values(2)))
    ),
    "histc": Case(lambda x: torch.histc(x, 10, -2, 2), FLOATS),
    "bernoulli": Case(torch.bernoulli, ((values(1).sigmoid(),), (values(2).sigmoid(),))),
    "dropout": Case(lambda x: F.dropout(x, 0.5), FLOATS),
}
DEPENDENT = [name for name, case in CASES.items() if case.other_arguments]


def costs_of(op, arguments):
    """Return what a call adds to the counters."""
    on_card = [argument.to("spyre") for argument in arguments]
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    result = op(*on_card)  # held, so that its memory is not reused
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    names = before.keys() - {"frees"}  # depends on when Python releases tensors
    del result
    return {name: after[name] - before[name] for name in names}


def names_in_table():
    """Yield the ops of the contract's table, each with what its time depends on."""
    page = CONTRACT.read_text()
    section = page.partition("## Time that depends on data\n")[2].partition("\n## ")[0]
    for ops, dependence in ROW.findall(section):
        for name in NAME.findall(ops):
            yield name, dependence


def test_the_table_of_the_contract_lists_the_tested_ops():
    table = dict(names_in_table())
    assert sorted(table) == sorted(CASES)
    assert sorted(name for name, dependence in table.items() if dependence != "nothing") == sorted(
        DEPENDENT
    )


@pytest.mark.parametrize("name", CASES)
def test_other_values_take_the_same_time(name):
    """For ops whose time depends on a number, that number is the same here."""
    case = CASES[name]
    first, second = (costs_of(case.op, arguments) for arguments in case.arguments)
    assert first == second


@pytest.mark.parametrize("name", DEPENDENT)
def test_the_number_in_the_table_changes_the_time(name):
    case = CASES[name]
    (arguments, _), other_arguments = case.arguments, case.other_arguments
    costs, other_costs = (costs_of(case.op, given) for given in (arguments, other_arguments))
    assert costs["device_time_ps"] != other_costs["device_time_ps"]


def test_a_scalar_is_a_constant_for_its_first_values_only():
    x = values(1)
    costs = [costs_of(lambda x, i=i: x * (i + 0.5), (x,)) for i in range(MAX_CONSTANTS + 3)]
    constants, (first, *later) = costs[:MAX_CONSTANTS], costs[MAX_CONSTANTS:]
    assert all(cost == constants[0] for cost in constants) and MAX_CONSTANTS == 4
    assert all(cost == later[0] for cost in later)
    assert first["device_time_ps"] == later[0]["device_time_ps"] != constants[0]["device_time_ps"]
    assert (constants[0]["h2d_bytes"], later[0]["h2d_bytes"]) == (0, 4)
