"""Optimizer state in float32: averages of squared gradients of 16-bit parameters.

PyTorch allocates them in the dtype of the parameter. The smallest positive value of the card's
16-bit format is 4.7e-10; squared gradients soon underflow to 0, and the step, which is divided by
their square root, becomes huge.
"""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.dtypes import HALF_DTYPES
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import (
    Function,
    is_spyre,
    set_attribute,
    wrap,
)

_OPTIMIZERS = (
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
)
_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "acc_delta")


def _apply(undo: ExitStack) -> None:
    for optimizer in _OPTIMIZERS:
        wrap(undo, optimizer, "_init_group", _allocating_float32)
    base, name = torch.optim.Optimizer, "_process_value_according_to_param_policy"
    set_attribute(undo, base, name, staticmethod(_loading_float32(getattr(base, name))))


def _allocating_float32(original: Function) -> Function:
    def _init_group(self: torch.optim.Optimizer, group: dict[str, Any], *lists: Any) -> Any:
        result = original(self, group, *lists)
        for param in group["params"]:
            if param.dtype not in HALF_DTYPES or not is_spyre(param):
                continue
            state = self.state.get(param, {})
            for name in _SQUARES:
                if name in state and state[name].dtype in HALF_DTYPES:
                    _widen(state, name, lists)
        return result

    return _init_group


def _widen(state: dict[str, Any], name: str, lists: Any) -> None:
    """Convert an entry to float32, in the state and in the lists that the step works on."""
    narrow = state[name]
    state[name] = narrow.float()
    for tensors in lists:
        if isinstance(tensors, list):
            tensors[:] = [state[name] if tensor is narrow else tensor for tensor in tensors]


def _loading_float32(original: Function) -> Function:
    def process(
        param: torch.Tensor,
        value: torch.Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Any = None,
    ) -> torch.Tensor:
        is_wide = key in _SQUARES and param.dtype in HALF_DTYPES and is_spyre(param)
        if is_wide:
            return value.to(device=param.device, dtype=torch.float32)
        processed: torch.Tensor = original(param, value, param_id, param_groups, key)
        return processed

    return process


PATCH = Patch(
    name="optimizers",
    targets=(
        *(
            PrivateName(f"torch.optim.{optimizer.__name__}._init_group", ("group",))
            for optimizer in _OPTIMIZERS
        ),
        PrivateName(
            "torch.optim.Optimizer._process_value_according_to_param_policy",
            ("param", "value", "param_id", "param_groups", "key"),
        ),
    ),
    changes="Averages of squared gradients of 16-bit parameters on a card are float32.",
    reason="Optimizers allocate state in the dtype of the parameter; hooks run too early or late.",
    breaks="Training in 16 bits diverges: the second moments underflow to zero.",
    apply=_apply,
)
