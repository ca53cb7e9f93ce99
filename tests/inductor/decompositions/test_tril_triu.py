"""tril_indices and triu_indices on the card."""

import pytest
import torch


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("indices", [torch.tril_indices, torch.triu_indices])
@pytest.mark.parametrize(
    "row, col, offset", [(5, 5, 0), (7, 3, 1), (3, 9, -2), (4, 4, 7), (4, 4, -7), (0, 3, 0)]
)
def test_triangle_indices_match_the_cpu(indices, row, col, offset, compiled):
    def made(x):
        return indices(row, col, offset, device=x.device)

    before = torch.spyre.counters()["fallbacks"]
    x = torch.zeros(1, device="spyre")
    actual = (torch.compile(made, dynamic=False) if compiled else made)(x)
    assert actual.dtype is torch.int64 and actual.device == x.device
    assert actual.tolist() == indices(row, col, offset).tolist()
    assert torch.spyre.counters()["fallbacks"] == before


def test_indexing_with_triangle_indices():
    def lower(x):
        rows, columns = torch.tril_indices(5, 5, device=x.device)
        return x[rows, columns]

    x = torch.arange(25.0).reshape(5, 5)
    assert torch.compile(lower)(x.to("spyre")).tolist() == lower(x).tolist()
