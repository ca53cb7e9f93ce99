"""PyTorch's fused optimizers (`fused=True`): the step of one parameter is one kernel.

The kernel computes in float32 and rounds to the dtypes of the tensors that it writes. Scalars that
change from step to step, such as the learning rate, are tensors, so that one kernel serves all.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.ops.spyre_ops import defines

Kernel = Callable[..., Any]
Tensors = Sequence[torch.Tensor]
# A tensor and its new value.
Stored = tuple[torch.Tensor, torch.Tensor]
_SCALING = "Tensor? grad_scale, Tensor? found_inf"


def _descent(
    param: torch.Tensor,
    grad: torch.Tensor,
    grad_scale: torch.Tensor | None,
    maximize: bool,
    decay: float,
) -> torch.Tensor:
    """Return the unscaled gradient in float32, with weight decay; negated to maximize."""
    exact = grad.float() if grad_scale is None else grad.float() / grad_scale
    exact = -exact if maximize else exact
    return exact if decay == 0 else exact + decay * param.float()


def _unscaled(grad: torch.Tensor, grad_scale: torch.Tensor | None) -> list[Stored]:
    """Return the gradient without its scale, which PyTorch's fused steps write back."""
    return [] if grad_scale is None else [(grad, grad.float() / grad_scale)]


def _store(found_inf: torch.Tensor | None, *pairs: Stored) -> None:
    """Write the new values, unless the gradients of the step overflowed."""
    values = [value.to(target.dtype) for target, value in pairs]
    targets = [target for target, _ in pairs]
    if found_inf is not None:
        skipped = found_inf != 0
        values = [
            torch.where(skipped, target, value)
            for target, value in zip(targets, values, strict=True)
        ]
    for target, value in zip(targets, values, strict=True):
        target.copy_(value)


def _bias_correction(step: torch.Tensor, beta: float) -> torch.Tensor:
    """Return 1 - beta ** step, in a form that does not cancel in the first steps."""
    return torch.ones_like(step) if beta == 0 else -torch.expm1(step * math.log(beta))


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
    descent = _descent(param, grad, grad_scale, maximize, 0 if decoupled else weight_decay)
    new_mean = mean.float() + (1 - beta1) * (descent - mean.float())
    new_square = beta2 * square.float() + (1 - beta2) * descent * descent
    bias1, bias2 = (_bias_correction(step, beta) for beta in (beta1, beta2))
    peak = new_square if largest is None else torch.maximum(largest.float(), new_square)
    decayed = param.float()
    if decoupled and weight_decay != 0:
        decayed = decayed - decayed * (lr * weight_decay)
    update = (lr / bias1) * new_mean / (peak.sqrt() / bias2.sqrt() + eps)
    stored = [(param, decayed - update), (mean, new_mean), (square, new_square)]
    if largest is not None:
        stored.append((largest, peak))
    _store(found_inf, *stored, *_unscaled(grad, grad_scale))


@defines(
    "sgd_step(Tensor(a!) param, Tensor(b!) grad, Tensor(c!)? momentum_buffer, Tensor lr, "
    "float weight_decay, float momentum, float dampening, bool nesterov, bool maximize, "
    f"bool is_first_step, {_SCALING}) -> ()"
)
def sgd_step(
    param: torch.Tensor,
    grad: torch.Tensor,
    momentum_buffer: torch.Tensor | None,
    lr: torch.Tensor,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: torch.Tensor | None,
    found_inf: torch.Tensor | None,
) -> None:
    descent = _descent(param, grad, grad_scale, maximize, weight_decay)
    stored = _unscaled(grad, grad_scale)
    if momentum_buffer is not None:
        speed = descent
        if not is_first_step:
            speed = momentum * momentum_buffer.float() + (1 - dampening) * descent
        stored.append((momentum_buffer, speed))
        descent = descent + momentum * speed if nesterov else speed
    _store(found_inf, (param, param.float() - lr * descent), *stored)


@defines(
    "adagrad_step(Tensor(a!) param, Tensor(b!) grad, Tensor(c!) total, Tensor step, Tensor lr, "
    f"float lr_decay, float weight_decay, float eps, bool maximize, {_SCALING}) -> ()"
)
def adagrad_step(
    param: torch.Tensor,
    grad: torch.Tensor,
    total: torch.Tensor,
    step: torch.Tensor,
    lr: torch.Tensor,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: torch.Tensor | None,
    found_inf: torch.Tensor | None,
) -> None:
    descent = _descent(param, grad, grad_scale, maximize, weight_decay)
    new_total = total.float() + descent * descent
    slowed = lr / (1 + (step - 1) * lr_decay)
    update = slowed * descent / (new_total.sqrt() + eps)
    stored = [(param, param.float() - update), (total, new_total)]
    _store(found_inf, *stored, *_unscaled(grad, grad_scale))


def _adam(decoupled: bool, step: Kernel) -> Kernel:
    def fused_adam(
        params: Tensors,
        grads: Tensors,
        means: Tensors,
        squares: Tensors,
        largest: Tensors,
        steps: Tensors,
        *,
        lr: float | torch.Tensor,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        peaks = largest if amsgrad else [None] * len(params)
        rate = _rate(lr, params)
        settings = (rate, beta1, beta2, weight_decay, eps, maximize, decoupled)
        for tensors in zip(params, grads, means, squares, peaks, steps, strict=True):
            _check("adam", *tensors[:-1])
            step(*tensors, *settings, grad_scale, found_inf)

    return fused_adam


def _sgd(step: Kernel) -> Kernel:
    def fused_sgd(
        params: Tensors,
        grads: Tensors,
        momentum_buffers: Tensors,
        *,
        weight_decay: float,
        momentum: float,
        lr: float | torch.Tensor,
        dampening: float,
        nesterov: bool,
        maximize: bool,
        is_first_step: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        buffers: Sequence[torch.Tensor | None] = momentum_buffers or [None] * len(params)
        settings = (weight_decay, momentum, dampening, nesterov, maximize, is_first_step)
        rate = _rate(lr, params)
        for tensors in zip(params, grads, buffers, strict=True):
            _check("sgd", *tensors)
            step(*tensors, rate, *settings, grad_scale, found_inf)

    return fused_sgd


def _adagrad(step: Kernel) -> Kernel:
    def fused_adagrad(
        params: Tensors,
        grads: Tensors,
        totals: Tensors,
        steps: Tensors,
        *,
        lr: float | torch.Tensor,
        lr_decay: float,
        weight_decay: float,
        eps: float,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        rate = _rate(lr, params)
        for tensors in zip(params, grads, totals, steps, strict=True):
            _check("adagrad", *tensors[:-1])
            step(*tensors, rate, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf)

    return fused_adagrad


def _check(name: str, param: torch.Tensor, *states: torch.Tensor | None) -> None:
    for state in states:
        if state is not None and (state.shape, state.device) != (param.shape, param.device):
            raise RuntimeError(
                f"{name}: a parameter of size {tuple(param.shape)} on {param.device} has a "
                f"gradient or a state of size {tuple(state.shape)} on {state.device}"
            )


def _rate(lr: float | torch.Tensor, params: Tensors) -> torch.Tensor | None:
    """Return the learning rate in one tensor on the card, for all parameters."""
    if not params:
        return None
    if isinstance(lr, torch.Tensor):
        return lr.to(params[0].device, torch.float32)
    return torch.full((), lr, dtype=torch.float32, device=params[0].device)


def fused_kernels(kernel: Callable[[torch._ops.OpOverload], Kernel]) -> dict[str, Kernel]:
    """Return the kernels of PyTorch's fused optimizers by overload.

    `kernel` returns the kernel of an op of the `spyre` namespace.
    """
    adam, sgd, adagrad = kernel(adam_step), kernel(sgd_step), kernel(adagrad_step)
    functions = {
        "_fused_adam_": _adam(False, adam),
        "_fused_adamw_": _adam(True, adam),
        "_fused_sgd_": _sgd(sgd),
        "_fused_adagrad_": _adagrad(adagrad),
    }
    return {
        f"{name}{variant}": function
        for name, function in functions.items()
        for variant in ("", ".tensor_lr")
    }
