"""Folded constants preserve the range of the card's 16-bit floats."""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder

    wrap(undo, UniformValueConstantFolder, "add_node_replacement", _reading_as_float32)


# Constants are folded on the card, whose 16-bit range exceeds float16's. The lowest value of an
# attention mask is such a constant: read as float16 it would be minus infinity.
def _reading_as_float32(original: Function) -> Function:
    def add_node_replacement(self: Any, node: torch.fx.Node, tensor: torch.Tensor) -> None:
        original(self, node, tensor)
        if tensor.device.type == DEVICE_NAME and tensor.dtype is torch.float16:
            self.node_replacements[node] = tensor.flatten()[0].to(torch.float32).item()

    return add_node_replacement


PATCH = Patch(
    name="constant_folding",
    targets=(
        PrivateName(
            "torch._inductor.fx_passes.joint_graph.UniformValueConstantFolder.add_node_replacement",
            ("node", "tensor"),
        ),
    ),
    changes="A folded float16 constant is read from the card as float32.",
    reason="The pass reads with `.item()`, which converts to float16; it has no hook.",
    breaks="Masks built from `torch.finfo(torch.float16).min` become minus infinity: NaN results.",
    apply=_apply,
    lifetime=Lifetime.COMPILATION,
)
