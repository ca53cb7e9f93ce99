"""Conversions to float64, which the card has not: as in eager mode, the result is on the CPU."""

import warnings
from typing import Any

import torch

from torch_spyre._inductor.fx_passes import users_line
from torch_spyre.constants import DEVICE_NAME

_MESSAGE = (
    f"{DEVICE_NAME} has no float64: a tensor converted to it comes back on the CPU. Call .cpu() "
    "first to say so, or convert to float32 to stay on the card."
)
_prims = torch.ops.prims


class HostConversions(torch.fx.Interpreter):
    """Runs a graph; what follows such a conversion is computed on the CPU too."""

    def run_node(self, node: torch.fx.Node) -> Any:
        operand = node.args[0] if _to_float64(node) else None
        source = self.env.get(operand) if isinstance(operand, torch.fx.Node) else None
        if not isinstance(source, torch.Tensor) or source.device.type != DEVICE_NAME:
            return super().run_node(node)
        file, line = users_line(node) or (__file__, 0)
        warnings.warn_explicit(_MESSAGE, UserWarning, file, line)
        host = _prims.device_put.default(source, torch.device("cpu"))
        return _prims.convert_element_type.default(host, torch.float64)


def _to_float64(node: torch.fx.Node) -> bool:
    if node.target is _prims.convert_element_type.default:
        return node.args[1] is torch.float64
    given = node.kwargs
    return (
        node.target is torch.ops.aten._to_copy.default
        and given.get("dtype") is torch.float64
        and given.get("device") is None
    )
