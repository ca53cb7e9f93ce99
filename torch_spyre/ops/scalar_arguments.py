"""Scalar arguments of eager ops that differ from call to call.

A plan has its scalars as constants, which is fast. But a scalar such as the step size of an
optimizer may change in every step, and each value would need its own program. Once an op was called
with several values, the scalar is passed in a tensor, and one generic plan serves all later calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.ops.plans import Plan, Plans, add_plan
from torch_spyre.ops.spyre_ops import defines

# The number of values of a scalar that get a plan with a constant, all other arguments being equal.
MAX_CONSTANTS = 4
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class TensorForm:
    """The op that accepts a tensor in place of a scalar, and its arguments for a call."""

    overload: torch._ops.OpOverload
    # Returns None if the call has no such scalar, or if the scalar takes part in type promotion.
    arguments: Callable[[Sequence[Any], dict[str, Any]], Arguments | None]


def _scaled_sum(name: str, operands: str, value: Callable[..., torch.Tensor]) -> list[Any]:
    """Define x + factor * value(x, ...), as a new tensor and in place."""

    def added(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        *operands, factor = tensors
        term = value(x, *operands)
        return x + term * factor.to(term.dtype)

    def added_in_place(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        return x.copy_(added(x, *tensors))

    return [
        defines(f"scaled_{name}(Tensor x, {operands}, Tensor factor) -> Tensor")(added),
        defines(f"scaled_{name}_(Tensor(a!) x, {operands}, Tensor factor) -> Tensor(a!)")(
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


class GenericPlans:
    """Finds calls of an op that differ in a scalar only, and holds one plan for them."""

    def __init__(
        self,
        overload: torch._ops.OpOverload,
        make: Callable[[torch._ops.OpOverload, Sequence[Any], dict[str, Any]], Plan | None],
    ) -> None:
        self.forms = _forms_of(overload)
        self.make = make
        self.plans = Plans()
        # The number of calls with new scalars whose other arguments are equal.
        self.counts = Plans()

    def find_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
        """Return the call of the generic plan; None if the scalars should be constants."""
        for form in self.forms:
            arguments = form.arguments(args, kwargs)
            key = None if arguments is None else _C.arguments_key(*arguments)
            if arguments is None or key is None:
                continue
            count = self.counts.get(key, 0) + 1
            add_plan(self.counts, key, count)
            if count <= MAX_CONSTANTS:
                continue
            if key not in self.plans:
                add_plan(self.plans, key, self.make(form.overload, *arguments))
            plan = self.plans[key]
            if plan is not None:
                return lambda: plan(*arguments)
        return None


def _forms_of(overload: torch._ops.OpOverload) -> list[TensorForm]:
    """Return the forms of an op that accept a tensor in place of a scalar."""
    name = overload._schema.name.removeprefix("aten::")
    plain, variant = name.removesuffix("_"), overload._schema.overload_name
    forms = []
    if variant in ("Tensor", "Scalar") and plain in ("add", "sub", "mul", "div"):
        forms.append(TensorForm(getattr(torch.ops.aten, name).Tensor, _with_tensor_operand))
    if plain in _SCALED and variant in ("Tensor", ""):
        scalar = "alpha" if plain in ("add", "sub") else "value"
        in_place = name.endswith("_")
        forms.append(TensorForm(_SCALED[plain][in_place], _with_tensor_factor(scalar)))
    return forms


def _with_tensor_operand(args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments | None:
    # A factor of 1 may follow.
    if kwargs or tuple(args[2:]) not in ((), (1,)) or type(args[1]) not in (int, float):
        return None
    x, scalar = args[:2]
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return None
    if x.dim() == 0 and x.dtype is not torch.float32:
        return None
    return (x, torch.tensor(scalar, dtype=torch.float32)), {}


def _with_tensor_factor(
    name: str,
) -> Callable[[Sequence[Any], dict[str, Any]], Arguments | None]:
    def arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments | None:
        if list(kwargs) != [name] or type(kwargs[name]) not in (int, float):
            return None
        if not all(isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args):
            return None
        return (*args, torch.tensor(kwargs[name], dtype=torch.float32)), {}

    return arguments
