"""One step of an LSTM or a GRU from its gates, as one kernel of the card.

PyTorch calls these fused cells on out-of-tree devices and has no CPU kernels for them, so kernels
for the fallback are registered here. On CPU tensors PyTorch composes cells from other ops.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_impls import register_op_impl
from torch._subclasses.fake_tensor import FakeTensorMode

aten = torch.ops.aten
_kernels = torch.library.Library("aten", "IMPL")


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the hidden state, the cell state, and the four gates for the gradient."""
    gates = _plus(_plus(input_gates + hidden_gates, input_bias), hidden_bias).chunk(4, 1)
    into, forget, out = (torch.sigmoid(gates[index]) for index in (0, 1, 3))
    cell = torch.tanh(gates[2])
    cy = forget * cx + into * cell
    return out * torch.tanh(cy), cy, torch.cat([into, forget, cell, out], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    into, forget, cell, out = workspace.chunk(4, 1)
    tanh_cy = torch.tanh(cy)
    grad_cell = torch.zeros_like(cy) if grad_cy is None else grad_cy
    grad_out = torch.zeros_like(cy)
    if grad_hy is not None:
        grad_out = grad_hy * tanh_cy
        grad_cell = grad_cell + grad_hy * out * (1 - tanh_cy * tanh_cy)
    gates = [
        grad_cell * cell * into * (1 - into),
        grad_cell * cx * forget * (1 - forget),
        grad_cell * into * (1 - cell * cell),
        grad_out * out * (1 - out),
    ]
    grad_gates = torch.cat(gates, 1)
    return grad_gates, grad_cell * forget, grad_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the hidden state, and for the gradient the gates and states it was computed from."""
    inputs = _plus(input_gates, input_bias).chunk(3, 1)
    hidden = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    reset = torch.sigmoid(inputs[0] + hidden[0])
    update = torch.sigmoid(inputs[1] + hidden[1])
    fresh = torch.tanh(inputs[2] + reset * hidden[2])
    return (hx - fresh) * update + fresh, torch.cat([reset, update, fresh, hx, hidden[2]], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, update, fresh, hx, hidden_new = workspace.chunk(5, 1)
    grad_update = grad_hy * (hx - fresh) * update * (1 - update)
    grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh)
    grad_reset = grad_fresh * hidden_new * reset * (1 - reset)
    grad_input = torch.cat([grad_reset, grad_update, grad_fresh], 1)
    grad_hidden = torch.cat([grad_reset, grad_update, grad_fresh * reset], 1)
    grad_biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad_hy * update, *grad_biases


def _plus(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


CELLS: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
}
_LSTM_CELLS = (
    aten._thnn_fused_lstm_cell.default,
    aten._thnn_fused_lstm_cell_backward_impl.default,
)


def register() -> None:
    """Register CPU kernels for the fallback, and the shapes of results where PyTorch has none."""
    meta = torch._C.DispatchKey.Meta
    for overload, cell in CELLS.items():
        _kernels.impl(overload, cell, "CPU")
        if not torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), meta):
            _kernels.impl(overload, cell, "Meta")
    # PyTorch's Meta kernels of LSTM cells fail without biases, so fake tensors get their own.
    for overload in _LSTM_CELLS:
        register_op_impl(overload)(_run_cell)


def _run_cell(
    mode: FakeTensorMode, overload: torch._ops.OpOverload, *args: Any, **kwargs: Any
) -> Any:
    with mode:
        return CELLS[overload](*args, **kwargs)
