"""Connectionist temporal classification: `ctc_loss` and its gradient, one time step after another.

A step is a fixed number of eager ops with the same plans at every step. PyTorch's own op has a
result whose size depends on data, so that graphs with it cannot be traced; the ops defined here
have none, and a compiled graph calls them as it calls other ops without a lowering.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_spyre.ops.hand_written import HAND_WRITTEN_OPS

_INFINITY = float("inf")
_REDUCTION_NONE, _REDUCTION_MEAN = 0, 1
Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: int = _REDUCTION_MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    """Return the loss of `torch.nn.functional.ctc_loss`."""
    is_batched = log_probs.dim() == 3
    if not is_batched:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    host_inputs, host_targets = _on_host(input_lengths), _on_host(target_lengths)
    _check(log_probs, targets, host_inputs, host_targets, blank)
    num_inputs = _on_card(input_lengths, log_probs.device)
    num_targets = _on_card(target_lengths, log_probs.device)
    longest = targets.shape[-1] if host_targets is None else max(host_targets, default=0)
    states = _states(targets, num_targets, longest, blank)
    in_float32, _ = _forward(log_probs.float(), states, num_inputs, num_targets, zero_infinity)
    losses: Tensor = in_float32.to(log_probs.dtype)
    if zero_infinity:
        losses = torch.where(losses == _INFINITY, 0.0, losses)
    if reduction == _REDUCTION_MEAN:
        return (losses / num_targets.clamp_min(1).to(losses.dtype)).mean()
    if reduction != _REDUCTION_NONE:
        return losses.sum()
    return losses if is_batched else losses.squeeze(0)


def _on_host(lengths: Lengths) -> list[int] | None:
    """Return lengths as integers; None while a graph is traced, which has no values."""
    if not isinstance(lengths, Tensor):
        return [int(length) for length in lengths]
    if torch.compiler.is_compiling() or lengths.untyped_storage().device.type == "meta":
        return None
    return lengths.reshape(-1).tolist()


def _on_card(lengths: Lengths, device: torch.device) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths.reshape(-1).to(device=device, dtype=torch.int64)
    return torch.tensor(lengths, dtype=torch.int64, device=device)


def _check(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: list[int] | None,
    target_lengths: list[int] | None,
    blank: int,
) -> None:
    """Raise the errors of the CPU's kernel."""
    steps, batch, num_labels = log_probs.shape
    torch._check(log_probs.numel() > 0, lambda: "log_probs tensor must not be empty")
    torch._check(0 <= blank < num_labels, lambda: "blank must be in label range")
    if input_lengths is None or target_lengths is None:
        return
    torch._check(len(input_lengths) == batch, lambda: "input_lengths must be of size batch_size")
    torch._check(len(target_lengths) == batch, lambda: "target_lengths must be of size batch_size")
    _check_length(
        min(input_lengths) >= 0,
        f"input_lengths to have value at least 0, but got value {min(input_lengths)}",
    )
    _check_length(
        min(target_lengths) >= 0,
        f"target_lengths to have value at least 0, but got value {min(target_lengths)}",
    )
    _check_length(
        max(input_lengths) <= steps,
        f"input_lengths to have value at most {steps}, but got value {max(input_lengths)}",
    )
    needed = sum(target_lengths) if targets.dim() == 1 else max(target_lengths)
    size = targets.shape[-1]
    bound = (
        f"{needed} at dimension 0" if targets.dim() == 1 else f"at least {needed} at dimension 1"
    )
    _check_length(
        size == needed if targets.dim() == 1 else size >= needed,
        f"tensor to have size {bound}, but got size {size} for argument #2 'targets'",
    )


def _check_length(is_valid: bool, expectation: str) -> None:
    torch._check(
        is_valid,
        lambda: f"Expected {expectation} (while checking arguments for ctc_loss_allocate_outputs)",
    )


def _states(targets: Tensor, num_targets: Tensor, longest: int, blank: int) -> Tensor:
    """Return the labels of the states: the targets with a blank before each and at the end."""
    batch = num_targets.shape[0]
    if longest == 0:
        return torch.full((batch, 1), blank, dtype=torch.int64, device=num_targets.device)
    position = torch.arange(longest, device=num_targets.device)
    if targets.dim() == 1:
        starts = num_targets.cumsum(0) - num_targets
        index = (starts.unsqueeze(1) + position).clamp_max(targets.shape[0] - 1)
        labels = targets.to(torch.int64).index_select(0, index.reshape(-1)).reshape(batch, longest)
    else:
        labels = targets.to(torch.int64)[:, :longest]
    labels = torch.where(position < num_targets.unsqueeze(1), labels, blank)
    with_blanks = torch.stack([torch.full_like(labels, blank), labels], -1).reshape(batch, -1)
    return torch.constant_pad_nd(with_blanks, (0, 1), blank)


@torch.library.custom_op("spyre::ctc_loss", mutates_args=(), device_types="spyre")
def _forward(
    log_probs: Tensor,
    states: Tensor,
    num_inputs: Tensor,
    num_targets: Tensor,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """Return the loss of each sequence, and the logarithms of the probabilities of prefixes."""
    emissions = _emissions(log_probs, states)
    can_skip = _differs_from_second_before(states)
    state = torch.arange(states.shape[1], device=states.device)
    alpha = torch.where(state < 2, emissions[0], -_INFINITY)
    prefixes = torch.empty_like(emissions)
    prefixes[0] = alpha
    for step in range(1, len(emissions)):
        paths = _log_sum_exp(alpha, _shifted(alpha, 1), _shifted(alpha, 2, can_skip))
        # Copies, whose plans do not depend on the step, as those of views do.
        alpha = paths + emissions[step].clone()
        prefixes[step] = alpha
    last_step = torch.arange(len(emissions), device=states.device) == num_inputs.unsqueeze(1) - 1
    is_final = last_step.t().unsqueeze(-1) & _is_final_state(state, num_targets)
    log_likelihood = torch.where(is_final, prefixes, -_INFINITY).transpose(0, 1).flatten(1)
    losses = -torch.logsumexp(log_likelihood, 1)
    # Without any input only an empty target is possible.
    return torch.where((num_inputs == 0) & (num_targets == 0), 0.0, losses), prefixes


@_forward.register_fake
def _(log_probs: Tensor, states: Tensor, *_shapeless: object) -> tuple[Tensor, Tensor]:
    steps, batch, _ = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(steps, batch, states.shape[1])


@torch.library.custom_op("spyre::ctc_loss_backward", mutates_args=(), device_types="spyre")
def _backward(
    gradient: Tensor,
    log_probs: Tensor,
    states: Tensor,
    num_inputs: Tensor,
    num_targets: Tensor,
    losses: Tensor,
    prefixes: Tensor,
    zero_infinity: bool,
) -> Tensor:
    """Return the gradient of the losses with respect to the log probabilities."""
    steps = log_probs.shape[0]
    emissions = _emissions(log_probs, states)
    can_skip = _shifted(_differs_from_second_before(states), -2)
    state = torch.arange(states.shape[1], device=states.device)
    start = torch.where(_is_final_state(state, num_targets), 0.0, -_INFINITY)
    step = torch.arange(steps, device=states.device)
    is_last = (step.unsqueeze(1) == num_inputs - 1).unsqueeze(-1).expand_as(emissions).contiguous()
    beta = torch.full_like(emissions[0], -_INFINITY)
    suffixes = torch.empty_like(emissions)
    for index in reversed(range(steps)):
        following = _log_sum_exp(beta, _shifted(beta, -1), _shifted(beta, -2, can_skip))
        # Without the emission, which prefixes have already.
        suffix = torch.where(is_last[index].clone(), start, following)
        suffixes[index] = suffix
        beta = suffix + emissions[index].clone()
    occupancy = torch.exp(prefixes + suffixes + losses.unsqueeze(-1))
    labels = states.expand_as(emissions)
    occupancies = torch.zeros_like(log_probs).scatter_add(2, labels, occupancy)
    weight = gradient.unsqueeze(-1)
    is_infinite = losses.unsqueeze(-1) == _INFINITY
    result = (torch.exp(log_probs) - occupancies) * weight
    result = torch.where(is_infinite, 0.0 if zero_infinity else float("nan"), result)
    is_within = (step.unsqueeze(1) < num_inputs).unsqueeze(-1)
    return torch.where(is_within, result, 0.0)


@_backward.register_fake
def _(gradient: Tensor, log_probs: Tensor, *_shapeless: object) -> Tensor:
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    log_probs, states, num_inputs, num_targets, ctx.zero_infinity = inputs
    ctx.save_for_backward(log_probs, states, num_inputs, num_targets, *output)


def _gradients(ctx: Any, gradient: Tensor, _of_prefixes: Tensor) -> tuple[Tensor | None, ...]:
    return _backward(gradient, *ctx.saved_tensors, ctx.zero_infinity), None, None, None, None


_forward.register_autograd(_gradients, setup_context=_save)
HAND_WRITTEN_OPS.update((_forward._opoverload, _backward._opoverload))


def _emissions(log_probs: Tensor, states: Tensor) -> Tensor:
    """Return the log probability of the label of each state, at each step."""
    return log_probs.gather(2, states.expand(log_probs.shape[0], -1, -1))


def _differs_from_second_before(states: Tensor) -> Tensor:
    """Return whether a state may follow the second one before it: not the same label, no blank."""
    if states.shape[1] < 3:
        return torch.zeros_like(states, dtype=torch.bool)
    return torch.constant_pad_nd(states[:, 2:] != states[:, :-2], (2, 0), False)


def _is_final_state(state: Tensor, num_targets: Tensor) -> Tensor:
    """Return whether a state is the last blank or the last label of a target."""
    last = 2 * num_targets.unsqueeze(1)
    return (state == last) | (state == last - 1)


def _shifted(values: Tensor, count: int, is_used: Tensor | None = None) -> Tensor:
    """Return row elements `count` places later, and where not used the value of no path."""
    filler = False if values.dtype is torch.bool else -_INFINITY
    if values.shape[1] <= abs(count):
        return torch.full_like(values, filler)
    shifted = torch.constant_pad_nd(values, (count, -count), filler)
    return shifted if is_used is None else torch.where(is_used, shifted, -_INFINITY)


def _log_sum_exp(*values: Tensor) -> Tensor:
    """Return log(sum(exp(values))); -inf where all values are."""
    first, second, third = values
    largest = torch.maximum(torch.maximum(first, second), third)
    shift = torch.where(largest == -_INFINITY, 0.0, largest)
    total = torch.exp(first - shift) + torch.exp(second - shift) + torch.exp(third - shift)
    return torch.log(total) + shift
