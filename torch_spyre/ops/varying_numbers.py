"""Numbers among the arguments of eager ops that differ from call to call.

A plan is for the numbers it was made with: constants are quick. But an optimizer's step size is
another one in each step, and would have a program compiled each time. Once an op has been called
with several, the number goes to the card in a tensor, and there is one plan for all that follow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.ops.own import defines
from torch_spyre.ops.plans import Plan, Plans, keep

# Numbers for which an op gets plans of their own, all else being equal.
MOST_CONSTANTS = 4
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Form:
    """The op that takes a tensor where another has a number, and its arguments for a call."""

    overload: torch._ops.OpOverload
    # None if the call has no number there, or the number decides the type of the result.
    arguments: Callable[[Sequence[Any], dict[str, Any]], Arguments | None]


def _scaled_sum(name: str, tensors: str, value: Callable[..., torch.Tensor]) -> list[Any]:
    """x + factor * value(x, ...), as a new tensor and in place."""

    def added(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        found = value(x, *others[:-1])
        return x + found * others[-1].to(found.dtype)

    def added_in_place(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return x.copy_(added(x, *others))

    return [
        defines(f"scaled_{name}(Tensor x, {tensors}, Tensor factor) -> Tensor")(added),
        defines(f"scaled_{name}_(Tensor(a!) x, {tensors}, Tensor factor) -> Tensor(a!)")(
            added_in_place
        ),
    ]


def _widened(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return other.to(torch.promote_types(x.dtype, other.dtype))


_SCALED = {
    "add": _scaled_sum("add", "Tensor other", lambda x, other: other),
    "sub": _scaled_sum("sub", "Tensor other", lambda x, other: -other),
    "addcmul": _scaled_sum("addcmul", "Tensor a, Tensor b", lambda x, a, b: _widened(x, a) * b),
    "addcdiv": _scaled_sum("addcdiv", "Tensor a, Tensor b", lambda x, a, b: _widened(x, a) / b),
}


class Varying:
    """Finds out which calls of an op differ in a number only, and has one plan for them."""

    def __init__(
        self,
        overload: torch._ops.OpOverload,
        make: Callable[[torch._ops.OpOverload, Sequence[Any], dict[str, Any]], Plan | None],
    ) -> None:
        self.forms = _forms_of(overload)
        self.make = make
        self.plans = Plans()
        # How many numbers were seen in calls that are otherwise alike.
        self.seen = Plans()

    def plan(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
        """The call, for a number that has no plan of its own; None if it should get one."""
        for form in self.forms:
            given = form.arguments(args, kwargs)
            key = None if given is None else _C.arguments_key(*given)
            if given is None or key is None:
                continue
            count = self.seen.get(key, 0) + 1
            keep(self.seen, key, count)
            if count <= MOST_CONSTANTS:
                continue
            if key not in self.plans:
                keep(self.plans, key, self.make(form.overload, *given))
            plan = self.plans[key]
            if plan is not None:
                return lambda: plan(*given)
        return None


def _forms_of(overload: torch._ops.OpOverload) -> list[Form]:
    """Where the op can have a tensor for a number."""
    name = overload._schema.name.removeprefix("aten::")
    plain, variant = name.removesuffix("_"), overload._schema.overload_name
    found = []
    if variant in ("Tensor", "Scalar") and plain in ("add", "sub", "mul", "div"):
        found.append(Form(getattr(torch.ops.aten, name).Tensor, _with_tensor_operand))
    if plain in _SCALED and variant in ("Tensor", ""):
        number = "alpha" if plain in ("add", "sub") else "value"
        in_place = name.endswith("_")
        found.append(Form(_SCALED[plain][in_place], _with_tensor_factor(number)))
    return found


def _with_tensor_operand(args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments | None:
    # A factor of 1 may follow.
    if kwargs or tuple(args[2:]) not in ((), (1,)) or type(args[1]) not in (int, float):
        return None
    x, number = args[:2]
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return None
    if x.dim() == 0 and x.dtype is not torch.float32:
        return None
    return (x, torch.tensor(number, dtype=torch.float32)), {}


def _with_tensor_factor(
    name: str,
) -> Callable[[Sequence[Any], dict[str, Any]], Arguments | None]:
    def arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments | None:
        if list(kwargs) != [name] or type(kwargs[name]) not in (int, float):
            return None
        if not all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in args):
            return None
        return (*args, torch.tensor(kwargs[name], dtype=torch.float32)), {}

    return arguments
