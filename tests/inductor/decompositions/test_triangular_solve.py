"""Systems of equations whose matrix is a triangle, with gradients, eager and compiled."""

import pytest
import torch
from cpu_reference import assert_gradients_close_to_cpu, make_tensor

FORMS = {
    "lower": ((12, 12), (12, 5), {"upper": False}),
    "upper": ((8, 8), (8, 5), {"upper": True}),
    "from the right": ((2, 5, 5), (2, 3, 5), {"upper": True, "left": False}),
    "ones on the diagonal": ((2, 3, 70, 70), (2, 3, 70, 16), {"upper": False}),
    "one unknown": ((3, 1, 1), (3, 1, 4), {"upper": False}),
    "one matrix for many": ((6, 6), (3, 6, 4), {"upper": False}),
}


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize("name", FORMS)
def test_solutions_and_gradients_are_native(name, no_fallbacks):
    matrix_size, sides_size, options = FORMS[name]
    unit = name == "ones on the diagonal"
    matrix = make_tensor(*matrix_size, low=-0.4, high=0.4, dtype=torch.float32)
    matrix = matrix * 0.2 if unit else matrix + 2 * torch.eye(matrix_size[-1])
    sides = make_tensor(*sides_size, dtype=torch.float32)

    def solved(matrix, sides):
        return torch.linalg.solve_triangular(matrix, sides, unitriangular=unit, **options)

    assert_gradients_close_to_cpu(solved, matrix, sides, units=64)


def test_incompatible_sizes_are_rejected():
    with pytest.raises(RuntimeError, match="solve_triangular"):
        torch.linalg.solve_triangular(
            torch.ones(3, 4, device="spyre"), torch.ones(4, 2, device="spyre"), upper=False
        )
