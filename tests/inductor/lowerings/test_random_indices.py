"""Ops on elements at random indices, with duplicates, agree with the CPU."""

import pytest
import torch
from cpu_reference import assert_close, to_card, to_reference
from example_counts import FEW
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("no_fallbacks", "kernels")

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int8)
SIZES = st.lists(st.sampled_from([1, 2, 3, 7, 63, 64, 65]), min_size=1, max_size=3)


def values(draw, shape, dtype):
    """Return small multiples of 1/4, whose sums are exact in every dtype of the card."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    numbers = torch.randint(-6, 7, shape, generator=generator)
    return (numbers / 4).to(dtype) if dtype.is_floating_point else numbers.to(dtype)


def index(draw, size, shape, *, is_negative=False):
    """Return indices of few different values."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    lowest = -size if is_negative and draw(st.booleans()) else 0
    highest = min(size, lowest + draw(st.sampled_from([1, 4, 999])))
    kind = draw(st.sampled_from([torch.int64, torch.int32]))
    return torch.randint(lowest, max(highest, lowest + 1), shape, generator=generator).to(kind)


def check(function, *args, **tolerance):
    assert_close(function(*to_card(args)), function(*to_reference(args)), **tolerance)


@st.composite
def along_a_dim(draw):
    """Return a tensor, a dim, and an index and a source of other lengths along it."""
    shape, dtype = draw(SIZES), draw(st.sampled_from(DTYPES))
    dim = draw(st.integers(0, len(shape) - 1))
    selected = [draw(st.sampled_from([1, size])) for size in shape]
    selected[dim] = draw(st.sampled_from([1, 5, 70]))
    source = [size + draw(st.sampled_from([0, 2])) for size in selected]
    where = index(draw, shape[dim], selected).long()
    return values(draw, shape, dtype), dim, where, values(draw, source, dtype)


@FEW
@given(along_a_dim(), st.sampled_from(["sum", "amax", "amin"]), st.booleans())
def test_gathers_and_scatters(sample, kind, include_self):
    x, dim, where, source = sample

    def ops(x, where, source):
        yield x.gather(dim, where)
        yield x.scatter_reduce(dim, where, source, kind, include_self=include_self)

    check(lambda *args: list(ops(*args)), x, where, source)


@st.composite
def of_dims(draw):
    """Return a tensor, indices of some of its dims, and values to store there."""
    shape, dtype = draw(SIZES), draw(st.sampled_from(DTYPES))
    count = draw(st.integers(1, len(shape)))
    first = draw(st.integers(0, len(shape) - count))
    size = draw(st.sampled_from([(1,), (5,), (3, 2)]))
    dims = range(first, first + count)
    indices = [index(draw, shape[dim], size, is_negative=True) for dim in dims]
    return values(draw, shape, dtype), first, indices, values(draw, [1], dtype)


@FEW
@given(of_dims())
def test_reads_and_sums_at_indices_of_dims(sample):
    x, first, indices, value = sample

    def ops(x, value, *indices):
        at = [None] * first + [entry.long() for entry in indices]
        changed = torch.ops.aten.index_put_(x.clone(), at, value, True)
        return torch.ops.aten.index(x, at), changed, torch.ops.aten.index_put(x, at, value, True)

    check(ops, x, value, *indices)
