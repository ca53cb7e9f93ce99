"""Run the modules of one class on the card with all other modules of the model on the CPU.

The model is a small one with the same module classes. All modules of one class (in compiled mode:
the first of them) move to the card; their inputs are copied there and their outputs back. Each
output is compared with the CPU's result for the same inputs in float32.
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
# Rounding errors of successive ops add up like a random walk; beyond this factor of its standard
# deviation an error is not explained by rounding.
_MARGIN = 4.0
_NEVER_CALLED = (torch.nn.ModuleList, torch.nn.ModuleDict)


def kinds_of(model: torch.nn.Module) -> list[str]:
    """Return the class names of a model's modules, the most deeply nested first."""
    depth: dict[str, int] = {}
    for path, module in model.named_modules():
        if isinstance(module, _NEVER_CALLED):
            continue
        level = 0 if not path else 1 + path.count(".")
        name = type(module).__name__
        depth[name] = max(depth.get(name, 0), level)
    return sorted(depth, key=lambda name: -depth[name])


def try_kind(model: torch.nn.Module, kind: str, step: Step, mode: Mode, num_ops: int) -> Attempt:
    """Run the modules of class `kind` on the card and return how well they agree with the CPU.

    Such a module calls `num_ops` ops, each of which rounds once; this decides the error bound.
    """
    bound = _MARGIN * _ROUNDING * math.sqrt(max(num_ops, 1))
    candidate = copy.deepcopy(model)
    modules = _innermost(candidate, kind)
    if mode == "compiled":
        modules = modules[:1]  # each is compiled separately, which takes seconds
    errors: list[float] = []
    before = _fallbacks()
    torch._dynamo.reset()
    try:
        for module in modules:
            _run_on_card(module, mode, errors)
        args, kwargs = _first_arguments_without_cache(step)
        with torch.no_grad():
            candidate(*args, **kwargs)
    except Exception as error:  # any: a module that does not run is a finding
        message = f"{type(error).__name__}: {first_line(error)}"
        return Attempt("fails", _fallbacks() - before, None, bound, message)
    if not errors:
        return Attempt("fails", 0, None, bound, "the module was not called or returned no tensor")
    worst = max(errors)
    outcome: Any = "agrees" if worst <= bound else "differs"
    return Attempt(outcome, _fallbacks() - before, worst, bound, "")


def _innermost(model: torch.nn.Module, kind: str) -> Sequence[torch.nn.Module]:
    """Return the modules of a class that contain no other module of the same class."""
    matches = [module for module in model.modules() if type(module).__name__ == kind]
    return [
        module
        for module in matches
        if not any(inner is not module and inner in matches for inner in module.modules())
    ]


def _first_arguments_without_cache(step: Step) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of a first step; the module and its reference must share no cache."""
    arguments = step.arguments(None)
    assert arguments is not None, "a first step depends on no previous output"
    args, kwargs = arguments
    return args, {**kwargs, **({"use_cache": False} if "use_cache" in kwargs else {})}


def _run_on_card(module: torch.nn.Module, mode: Mode, errors: list[float]) -> None:
    """Move a module to the card and wrap its `forward` for callers on the CPU.

    Each call appends the errors of its outputs against a float32 copy of the module on the CPU.
    """
    reference = copy.deepcopy(module).float()
    replace_tensors(module, lambda tensor: tensor.detach().clone())
    module.to(DEVICE_NAME)
    forward_on_card: Callable[..., Any] = module.forward
    if mode == "compiled":
        forward_on_card = torch.compile(module.forward, dynamic=False)

    def forward(*args: Any, **kwargs: Any) -> Any:
        card_args, card_kwargs = _map_tensors((args, kwargs), lambda tensor: tensor.to(DEVICE_NAME))
        result = _map_tensors(
            forward_on_card(*card_args, **card_kwargs), lambda tensor: tensor.cpu()
        )
        exact_args, exact_kwargs = _map_tensors((args, kwargs), _to_float32)
        errors.extend(_relative_errors(result, reference(*exact_args, **exact_kwargs)))
        return result

    module.forward = forward


def _map_tensors(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return pytree.tree_map_only(torch.Tensor, convert, value)


def _to_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _relative_errors(actual: Any, expected: Any) -> Iterator[float]:
    """Yield for each tensor the norm of the difference relative to the norm of the reference."""
    pairs = zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True)
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
