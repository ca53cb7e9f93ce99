"""Tests of matmuls with operands that are not arguments."""

import pytest
import torch
from comparing import check_both, numbers

pytestmark = pytest.mark.usefixtures("native")


def test_an_operand_computed_from_indices_is_written_to_memory():
    def banded(x):
        index = torch.arange(x.shape[1], device=x.device)
        return x @ (index[:, None] <= index + 1).to(x.dtype)

    check_both(banded, numbers(5, 70), scale=16)
