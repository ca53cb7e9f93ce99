"""Indices into a dim of one element: 0 and nothing else, as in every other dim."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu

TABLE = torch.arange(8.0).view(1, 8)


def wide(index):
    return index[:1, None].expand(1, 8)


FORMS = {
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "embedding": lambda x, i: F.embedding(i, x),
    "indexing": lambda x, i: x[i],
    "gather": lambda x, i: torch.gather(x, 0, wide(i)),
    "scatter": lambda x, i: x.scatter(0, wide(i), x + 1),
    "scatter_add": lambda x, i: x.scatter_add(0, wide(i), x + 1),
    "index_put": lambda x, i: x.index_put((i,), x[0] + 1),
    "index_copy": lambda x, i: x.index_copy(0, i[:1], x + 1),
    "index_add": lambda x, i: x.index_add(0, i[:1], x + 1),
}


@pytest.mark.parametrize("name", FORMS)
def test_index_zero_of_a_size_one_dim(name, no_fallbacks):
    assert_close_to_cpu(FORMS[name], TABLE, torch.tensor([0, 0]))


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("place", [1, 5, -2])
@pytest.mark.parametrize("name", FORMS)
def test_other_indices_of_a_size_one_dim_raise(name, place, compiled):
    torch._dynamo.reset()
    run = torch.compile(FORMS[name], dynamic=False) if compiled else FORMS[name]
    with pytest.raises(IndexError, match="out of range"):
        run(TABLE.to("spyre"), torch.tensor([place, 0]).to("spyre")).cpu()


def test_negative_index_of_a_size_one_dim(no_fallbacks):
    assert_close_to_cpu(lambda x, i: x[i], TABLE, torch.tensor([-1, 0]))


@pytest.mark.parametrize("operation", ["floor_divide", "remainder", "fmod", "div"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_integer_division_by_zero_does_not_raise(operation, compiled, no_fallbacks):
    """The result is unspecified, as on other accelerators, since nothing synchronizes."""

    def divided(x, y):
        if operation == "div":
            return torch.div(x, y, rounding_mode="trunc")
        return getattr(torch, operation)(x, y)

    torch._dynamo.reset()
    run = torch.compile(divided, dynamic=False) if compiled else divided
    x, y = torch.tensor([7, -7, 7]), torch.tensor([0, 0, 2])
    actual = run(x.to("spyre"), y.to("spyre")).cpu()
    assert actual[2] == divided(x[2:], y[2:])[0]
    assert actual.shape == (3,)
