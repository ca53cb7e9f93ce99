"""Batch norms that update running statistics: functional ops, and copies of the new statistics."""

import torch

aten = torch.ops.aten
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def native_batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> _Three:
    if not training and running_mean is not None and running_var is not None:
        result: _Three = aten._native_batch_norm_legit_no_training(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        return result
    if running_mean is None and running_var is None:
        result = aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)
        return result
    if running_mean is None or running_var is None:
        raise RuntimeError("batch norm: pass both running_mean and running_var, or neither")
    output, mean, scale, new_mean, new_var = aten._native_batch_norm_legit_functional(
        x, weight, bias, running_mean, running_var, training, momentum, eps
    )
    running_mean.copy_(new_mean)
    running_var.copy_(new_var)
    return output, mean, scale


def with_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    stats = running_mean, running_var
    return *native_batch_norm(x, weight, bias, *stats, True, momentum, eps), _reserve(x)


def no_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    # Without running statistics, those of the input are used.
    training = running_mean is None
    stats = running_mean, running_var
    return *native_batch_norm(x, weight, bias, *stats, training, momentum, eps), _reserve(x)


def _reserve(x: torch.Tensor) -> torch.Tensor:
    """Return the empty buffer in which libraries of other devices pass data to the gradient."""
    return torch.empty(0, dtype=torch.uint8, device=x.device)


def backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    mean: torch.Tensor | None,
    scale: torch.Tensor | None,
    update: bool,
    eps: float,
    output_mask: list[bool],
    reserve: torch.Tensor,
) -> _Three:
    stats = running_mean, running_var, mean, scale
    gradients: _Three = aten.native_batch_norm_backward(
        gradient, x, weight, *stats, update, eps, output_mask
    )
    return gradients
