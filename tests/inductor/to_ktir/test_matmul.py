"""Products whose factors are not read from arguments."""

import pytest
import torch
from comparing import check_both, numbers

pytestmark = pytest.mark.usefixtures("native")


def test_a_factor_that_is_made_of_nothing_is_in_memory():
    def below(x):
        place = torch.arange(x.shape[1], device=x.device)
        return x @ (place[:, None] <= place + 1).to(x.dtype)

    check_both(below, numbers(5, 70), scale=16)
