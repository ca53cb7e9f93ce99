"""Strides, offsets and layouts follow from sizes as they do in real tensors."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_spyre._inductor.inputs import describe
from torch_spyre._inductor.tensor_forms import dense_form, view_form


def described(make, size):
    return describe(make(size))


SIZES = st.lists(st.integers(9, 200), min_size=3, max_size=3, unique=True)


@given(SIZES, st.permutations(range(3)), st.sampled_from([torch.float16, torch.float32]))
def test_dense_tensors(sizes, order, dtype):
    def make(size):
        return torch.empty(3, size, 70, dtype=dtype, device="spyre").permute(order)

    first, second, other = (described(make, size) for size in sizes)
    form = dense_form(first, second)
    assert form is not None
    assert form.at(other.size, ()) == other


@given(SIZES)
def test_last_elements_of_rows(sizes):
    def make(size):
        return torch.empty(1, size, dtype=torch.int32, device="spyre")[:, -1:]

    first, second, other = (described(make, size) for size in sizes)
    form = view_form(first, second, (sizes[0],), (sizes[1],))
    assert dense_form(first, second) is None
    assert form is not None
    assert form.at(other.size, (sizes[2],)) == other


@given(SIZES)
def test_prefixes_of_one_storage(sizes):
    storage = torch.empty(200, 64, dtype=torch.float16, device="spyre")
    first, second, other = (describe(storage[:size]) for size in sizes)
    form = view_form(first, second, (sizes[0],), (sizes[1],))
    assert form is not None
    assert form.at(other.size, (sizes[2],)) == other


def test_a_tensor_and_a_view_have_no_common_form():
    first = describe(torch.empty(20, 64, dtype=torch.float16, device="spyre"))
    second = describe(torch.empty(64, 30, dtype=torch.float16, device="spyre").t())
    assert dense_form(first, second) is None
