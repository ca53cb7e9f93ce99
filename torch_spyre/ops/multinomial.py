"""`torch.multinomial`: the host draws random values, and the card selects the samples."""

import torch

from torch_spyre import _C

# The CPU kernel has the same limit: float32 has no more distinct integers.
_MAX_CATEGORIES = 1 << 24


def multinomial(
    weights: torch.Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Return the categories with the largest ratios of weight to an exponential random value."""
    if not _can_select_by_rank(weights, num_samples, replacement):
        result: torch.Tensor = _C._run_on_cpu(
            "aten::multinomial",
            "",
            (weights, num_samples, replacement),
            {"generator": generator},
        )
        return result
    _check_weights(weights)
    draws = torch.empty_like(weights).exponential_(1, generator=generator)
    # The same values as PyTorch's CPU kernel, in place as there to save a tensor.
    rank = torch.div(weights, draws, out=draws)
    if num_samples == 1:
        return rank.argmax(-1, keepdim=True)
    return rank.topk(num_samples, -1).indices


def _can_select_by_rank(weights: torch.Tensor, num_samples: int, replacement: bool) -> bool:
    """Return False for samples drawn one by one, and for arguments that the CPU kernel rejects."""
    return (
        weights.dim() in (1, 2)
        and weights.is_floating_point()
        and weights.numel() > 0
        and weights.shape[-1] <= _MAX_CATEGORIES
        and (num_samples == 1 or (not replacement and 0 < num_samples <= weights.shape[-1]))
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
