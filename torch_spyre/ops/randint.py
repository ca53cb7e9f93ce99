"""`torch.randint_like` with a tensor as upper bound, which the host reads."""

from typing import Any

import torch


def randint_like(x: torch.Tensor, high: torch.Tensor, **options: Any) -> torch.Tensor:
    # PyTorch's own kernel accepts bounds on the CPU alone.
    torch._check(high.dim() == 0, lambda: "high must be a scalar tensor and on CPU")
    return torch.randint_like(x, int(high.item()), **options)
