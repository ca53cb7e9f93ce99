"""Tests of matmuls with operands that are not arguments."""

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor

pytestmark = pytest.mark.usefixtures("no_fallbacks")


def test_an_operand_computed_from_indices_is_written_to_memory():
    def banded(x):
        index = torch.arange(x.shape[1], device=x.device)
        return x @ (index[:, None] <= index + 1).to(x.dtype)

    assert_close_to_cpu(banded, make_tensor(5, 70), scale=16)
