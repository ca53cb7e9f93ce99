"""What `torch.amp.GradScaler` asks of a device, composed of ops that have kernels."""

import torch


def unscale(
    gradients: list[torch.Tensor], found_inf: torch.Tensor, inverse_scale: torch.Tensor
) -> None:
    """Multiplies the gradients, and sets the flag if any is not finite."""
    for gradient in gradients:
        odd = (gradient.isnan() | gradient.isinf()).any()
        torch.maximum(found_inf, odd.to(found_inf.dtype).reshape(found_inf.shape), out=found_inf)
        gradient.mul_(inverse_scale.to(gradient.dtype))


def update_scale(
    scale: torch.Tensor,
    growth_tracker: torch.Tensor,
    found_inf: torch.Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> torch.Tensor:
    """Backs off after infinities; grows after enough steps without, unless that overflows."""
    failed = found_inf != 0
    successes = growth_tracker + 1
    due = successes >= growth_interval
    grown = scale * growth_factor
    grown = torch.where(due & ~grown.isinf(), grown, scale)
    scale.copy_(torch.where(failed, scale * backoff_factor, grown))
    growth_tracker.copy_(torch.where(failed | due, 0, successes))
    return scale
