"""`torch.multinomial`: random numbers come from the host, as all do; the rest is the card's."""

import torch

from torch_spyre import _C

# Beyond, float32 does not tell categories apart.
_MOST_CATEGORIES = 1 << 24


def multinomial(
    weights: torch.Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """The categories that are first when each waits a random time in proportion to 1 / weight."""
    if not _is_race(weights, num_samples, replacement):
        given = {"generator": generator}
        result: torch.Tensor = _C._run_on_cpu(
            "aten::multinomial", "", (weights, num_samples, replacement), given
        )
        return result
    _check_weights(weights)
    waiting = torch.empty_like(weights).exponential_(1, generator=generator)
    # Of the values that PyTorch computes on the CPU, in place for the same reason: one tensor less.
    rank = torch.div(weights, waiting, out=waiting)
    if num_samples == 1:
        return rank.argmax(-1, keepdim=True)
    return rank.topk(num_samples, -1).indices


def _is_race(weights: torch.Tensor, num_samples: int, replacement: bool) -> bool:
    """Not what draws one sample after the other, nor what the CPU's kernel refuses in its words."""
    return (
        weights.dim() in (1, 2)
        and weights.is_floating_point()
        and weights.numel() > 0
        and weights.shape[-1] <= _MOST_CATEGORIES
        and (num_samples == 1 or (not replacement and 0 < num_samples <= weights.shape[-1]))
    )


def _check_weights(weights: torch.Tensor) -> None:
    valid = (weights.amax() < float("inf")) & (weights.amin() >= 0)
    empty = (weights.sum(-1) == 0).any()
    # The program waits once.
    is_valid, is_empty = torch.stack([valid, empty]).tolist()
    if not is_valid:
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if is_empty:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
