"""Optimizers: averages of squared gradients of 16-bit parameters are kept in float32.

PyTorch gives them the type of the parameter. The card's 16-bit format ends at 4.7e-10, and squares
of gradients soon lie below: they would be 0, and the step, which is divided by their root, huge.
"""

from typing import Any

import torch

from torch_spyre.device.patches.wrapping import Function, is_spyre, wrap
from torch_spyre.dtypes import HALF_DTYPES

_OPTIMIZERS = (
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
)
_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "acc_delta")


def apply() -> None:
    for optimizer in _OPTIMIZERS:
        wrap(optimizer, "_init_group", _with_wide_squares)
    base, name = torch.optim.Optimizer, "_process_value_according_to_param_policy"
    wrap(base, name, _loading_wide_squares)
    setattr(base, name, staticmethod(getattr(base, name)))


def _with_wide_squares(original: Function) -> Function:
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
    """In the state, and in the list that the step works on."""
    narrow = state[name]
    state[name] = narrow.float()
    for each in lists:
        if isinstance(each, list):
            each[:] = [state[name] if value is narrow else value for value in each]


def _loading_wide_squares(original: Function) -> Function:
    def process(
        param: torch.Tensor,
        value: torch.Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Any = None,
    ) -> torch.Tensor:
        wide = key in _SQUARES and param.dtype in HALF_DTYPES and is_spyre(param)
        if wide:
            return value.to(device=param.device, dtype=torch.float32)
        found: torch.Tensor = original(param, value, param_id, param_groups, key)
        return found

    return process
