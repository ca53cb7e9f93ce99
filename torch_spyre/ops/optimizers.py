"""PyTorch's fused optimizers (`fused=True`): the step of one parameter is one kernel.

Everything is computed in float32 and rounded where it is stored. Numbers that change from step to
step, such as the learning rate, are tensors: the kernel is the same for all of them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.ops.own import defines

Kernel = Callable[..., Any]
Tensors = Sequence[torch.Tensor]
_SCALING = "Tensor? grad_scale, Tensor? found_inf"


def _unscaled(
    param: torch.Tensor,
    grad: torch.Tensor,
    grad_scale: torch.Tensor | None,
    maximize: bool,
    decay: float,
) -> torch.Tensor:
    """The gradient of what is made smaller; with scaling, its true value is also left behind."""
    exact = grad.float()
    if grad_scale is not None:
        exact = exact / grad_scale
    exact = -exact if maximize else exact
    return exact if decay == 0 else exact + decay * param.float()


def _store(
    found_inf: torch.Tensor | None, *pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """Nothing changes in a step whose gradients overflowed."""
    values = [value.to(target.dtype) for target, value in pairs]
    if found_inf is not None:
        skipped = found_inf != 0
        values = [
            torch.where(skipped, target, value)
            for (target, _), value in zip(pairs, values, strict=True)
        ]
    for (target, _), value in zip(pairs, values, strict=True):
        target.copy_(value)


def _scaling_undone(
    grad: torch.Tensor, grad_scale: torch.Tensor | None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [] if grad_scale is None else [(grad, grad.float() / grad_scale)]


@defines(
    "adam_step(Tensor(a!) param, Tensor(b!) grad, Tensor(c!) mean, Tensor(d!) square, "
    "Tensor(e!)? largest, Tensor step, Tensor lr, float beta1, float beta2, float weight_decay, "
    f"float eps, bool maximize, bool decoupled, {_SCALING}) -> ()"
)
def adam_step(
    param: torch.Tensor,
    grad: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    largest: torch.Tensor | None,
    step: torch.Tensor,
    lr: torch.Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
    grad_scale: torch.Tensor | None,
    found_inf: torch.Tensor | None,
) -> None:
    descent = _unscaled(param, grad, grad_scale, maximize, 0 if decoupled else weight_decay)
    new_mean = mean.float() + (1 - beta1) * (descent - mean.float())
    new_square = beta2 * square.float() + (1 - beta2) * descent * descent
    # 1 - beta ** step, which cancels in the first of many steps.
    bias1, bias2 = (-torch.expm1(step * math.log(beta)) for beta in (beta1, beta2))
    peak = new_square if largest is None else torch.maximum(largest.float(), new_square)
    kept = param.float()
    if decoupled and weight_decay != 0:
        kept = kept - kept * (lr * weight_decay)
    update = (lr / bias1) * new_mean / (peak.sqrt() / bias2.sqrt() + eps)
    stored = [(param, kept - update), (mean, new_mean), (square, new_square)]
    if largest is not None:
        stored.append((largest, peak))
    _store(found_inf, *stored, *_scaling_undone(grad, grad_scale))
