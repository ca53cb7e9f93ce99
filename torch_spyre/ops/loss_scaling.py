"""The ops of `torch.amp.GradScaler`, composed of ops that have kernels."""

import torch


def unscale(
    gradients: list[torch.Tensor], found_inf: torch.Tensor, inverse_scale: torch.Tensor
) -> None:
    """Multiply the gradients by the inverse scale; set `found_inf` if one is not finite."""
    for gradient in gradients:
        is_nonfinite = (gradient.isnan() | gradient.isinf()).any()
        torch.maximum(
            found_inf, is_nonfinite.to(found_inf.dtype).reshape(found_inf.shape), out=found_inf
        )
        gradient.mul_(inverse_scale.to(gradient.dtype))


def update_scale(
    scale: torch.Tensor,
    growth_tracker: torch.Tensor,
    found_inf: torch.Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> torch.Tensor:
    """Reduce the scale after infinities; grow it after enough steps without, up to its limit."""
    failed = found_inf != 0
    successes = growth_tracker + 1
    due = successes >= growth_interval
    grown = scale * growth_factor
    grown = torch.where(due & ~grown.isinf(), grown, scale)
    scale.copy_(torch.where(failed, scale * backoff_factor, grown))
    growth_tracker.copy_(torch.where(failed | due, 0, successes))
    return scale
