"""`torch.multinomial`: samples of categories from random values on the card."""

import torch

from torch_spyre import _C

# PyTorch has the same limit: float32 has no more distinct integers.
_MAX_CATEGORIES = 1 << 24


def multinomial(
    weights: torch.Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Return samples of the last dim.

    Without replacement they are the categories with the largest ratios of weight to an exponential
    random value.
    """
    if not _is_valid(weights, num_samples, replacement):
        rejected: torch.Tensor = _C._run_on_cpu(
            "aten::multinomial",
            "",
            (weights, num_samples, replacement),
            {"generator": generator},
        )
        return rejected
    _check_weights(weights)
    if replacement and num_samples > 1:
        return _with_replacement(weights, num_samples, generator)
    draws = torch.empty_like(weights).exponential_(1, generator=generator)
    # The same ratios as in PyTorch's CPU kernel, in place as there to save a tensor.
    rank = torch.div(weights, draws, out=draws)
    if num_samples == 1:
        return rank.argmax(-1, keepdim=True)
    return rank.topk(num_samples, -1).indices


def _with_replacement(
    weights: torch.Tensor, num_samples: int, generator: torch.Generator | None
) -> torch.Tensor:
    """Return the categories whose shares of the sum of weights contain random values."""
    ends = weights.float().cumsum(-1)
    shape = (*weights.shape[:-1], num_samples)
    draws = torch.empty(shape, dtype=torch.float32, device=weights.device)
    draws.uniform_(generator=generator).mul_(ends[..., -1:])
    # To the right, so that a category without weight is never found. A draw is below the last end.
    return torch.searchsorted(ends, draws, right=True)


def _is_valid(weights: torch.Tensor, num_samples: int, replacement: bool) -> bool:
    """Return False for arguments that the CPU kernel rejects."""
    return (
        weights.dim() in (1, 2)
        and weights.is_floating_point()
        and weights.numel() > 0
        and weights.shape[-1] <= _MAX_CATEGORIES
        and num_samples > 0
        and (replacement or num_samples <= weights.shape[-1])
    )


def _check_weights(weights: torch.Tensor) -> None:
    valid = (weights.amax() < float("inf")) & (weights.amin() >= 0)
    empty = (weights.sum(-1) == 0).any()
    # One transfer to the host for both.
    is_valid, is_empty = torch.stack([valid, empty]).tolist()
    if not is_valid:
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if is_empty:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
