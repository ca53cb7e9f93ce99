"""Each kind of module on the card, with the rest of the model on the CPU.

The model is a small one of the same kinds. All modules of one kind move to the card (compiled: the
first of them), take their inputs there and bring their outputs back. What each returns is compared
with what the CPU computes from the same inputs in float32.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device import cards
from torch_spyre.enablement.capture import first_line
from torch_spyre.enablement.findings import Attempt, Mode
from torch_spyre.enablement.model_source import Step
from torch_spyre.enablement.weights import replace_tensors

# Half a unit in the last place of the card's 16-bit format, which has 9 bits of fraction.
_ROUNDING = 2.0**-10
# Errors of one op after the other add up like a random walk; this much further is no chance.
_MARGIN = 4.0
_NEVER_CALLED = (torch.nn.ModuleList, torch.nn.ModuleDict)


def kinds_of(model: torch.nn.Module) -> list[str]:
    """The classes of a model's modules, those inside others first."""
    depth: dict[str, int] = {}
    for path, part in model.named_modules():
        if isinstance(part, _NEVER_CALLED):
            continue
        level = 0 if not path else 1 + path.count(".")
        name = type(part).__name__
        depth[name] = max(depth.get(name, 0), level)
    return sorted(depth, key=lambda name: -depth[name])


def try_kind(model: torch.nn.Module, kind: str, step: Step, mode: Mode, ops: int) -> Attempt:
    """`ops` is how many ops such a module calls: each rounds once."""
    bound = _MARGIN * _ROUNDING * math.sqrt(max(ops, 1))
    candidate = copy.deepcopy(model)
    parts = _innermost(candidate, kind)
    if mode == "compiled":
        parts = parts[:1]  # each is compiled apart, which takes seconds
    errors: list[float] = []
    before = _fallbacks()
    torch._dynamo.reset()
    try:
        for part in parts:
            _move(part, mode, errors)
        args, kwargs = _without_cache(step)
        with torch.no_grad():
            candidate(*args, **kwargs)
    except Exception as error:  # any: that a module does not run is a finding
        message = f"{type(error).__name__}: {first_line(error)}"
        return Attempt("fails", _fallbacks() - before, None, bound, message)
    if not errors:
        return Attempt("fails", 0, None, bound, "it was not called, or returned no tensor")
    worst = max(errors)
    outcome: Any = "agrees" if worst <= bound else "differs"
    return Attempt(outcome, _fallbacks() - before, worst, bound, "")


def _innermost(model: torch.nn.Module, kind: str) -> Sequence[torch.nn.Module]:
    """The modules of a kind that have none of the same kind inside."""
    found = [part for part in model.modules() if type(part).__name__ == kind]
    return [
        part
        for part in found
        if not any(inner is not part and inner in found for inner in part.modules())
    ]


def _without_cache(step: Step) -> tuple[Sequence[Any], dict[str, Any]]:
    """The module and its reference would both write to a cache."""
    given = step.arguments(None)
    assert given is not None, "the first step needs none before it"
    args, kwargs = given
    return args, {**kwargs, **({"use_cache": False} if "use_cache" in kwargs else {})}


def _move(part: torch.nn.Module, mode: Mode, errors: list[float]) -> None:
    """From now on the module computes on the card what its callers on the CPU ask it for."""
    reference = copy.deepcopy(part).float()
    replace_tensors(part, lambda tensor: tensor.detach().clone())
    part.to(DEVICE_NAME)
    forward_on_card: Callable[..., Any] = part.forward
    if mode == "compiled":
        forward_on_card = torch.compile(part.forward, dynamic=False)

    def forward(*args: Any, **kwargs: Any) -> Any:
        there_args, there_kwargs = _each_tensor((args, kwargs), lambda each: each.to(DEVICE_NAME))
        result = _each_tensor(forward_on_card(*there_args, **there_kwargs), lambda each: each.cpu())
        exact_args, exact_kwargs = _each_tensor((args, kwargs), _widened)
        errors.extend(_errors(result, reference(*exact_args, **exact_kwargs)))
        return result

    part.forward = forward


def _each_tensor(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return pytree.tree_map_only(torch.Tensor, convert, value)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _errors(found: Any, wanted: Any) -> Iterator[float]:
    """Of each tensor the norm of the difference over the norm of what is right."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True)
    for result, exact in pairs:
        if not isinstance(exact, torch.Tensor):
            continue
        if not exact.is_floating_point():
            yield 0.0 if torch.equal(result, exact) else math.inf
            continue
        finite = exact.isfinite()
        if not torch.equal(result[~finite].float(), exact[~finite].float()):
            yield math.inf
            continue
        difference = (result[finite].double() - exact[finite].double()).norm().item()
        scale = exact[finite].double().norm().item()
        relative = difference / scale if scale else difference
        yield math.inf if math.isnan(relative) else relative


def _fallbacks() -> int:
    cards.synchronize()
    return cards.counters()["fallbacks"]
