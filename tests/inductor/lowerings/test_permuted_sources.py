"""Elements gathered from permuted tensors, followed by pointwise ops: one compiled graph."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close_to_cpu, make_tensor

pytestmark = pytest.mark.usefixtures("no_fallbacks")

PERMUTATIONS = [(0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)]


def draw_indices(choices, *shape):
    return torch.randint(0, choices, shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("permutation", PERMUTATIONS)
def test_gather_from_a_permuted_source_and_add(permutation, dim, caplog):
    source = make_tensor(3, 64, 70)
    size = list(source.permute(permutation).shape)
    index = draw_indices(
        size[dim], *(2 if position == dim else n for position, n in enumerate(size))
    )
    added = make_tensor(*index.shape)
    assert_close_to_cpu(
        lambda x, i, y: x.permute(permutation).gather(dim, i) + y, source, index, added
    )
    assert_close_to_cpu(
        lambda x, i, y: x.gather(dim, i) + y, source.permute(permutation), index, added
    )
    assert "op by op" not in caplog.text


FORMS = {
    "index_select": lambda x, i, y: x.t().index_select(0, i) + y,
    "index": lambda x, i, y: x.t()[i] * y,
    "embedding": lambda x, i, y: F.relu(F.embedding(i, x.t())) + y,
    "layer norm of an embedding": lambda x, i, y: F.layer_norm(F.embedding(i, x.t()) + y, (5,)),
    "take_along_dim": lambda x, i, y: torch.take_along_dim(x.t(), i[:, None].expand(-1, 5), 0) - y,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_transposed_table_and_pointwise_ops(form, caplog):
    table, index, added = make_tensor(5, 130), draw_indices(130, 6), make_tensor(6, 5)
    assert_close_to_cpu(FORMS[form], table, index, added)
    assert "op by op" not in caplog.text
