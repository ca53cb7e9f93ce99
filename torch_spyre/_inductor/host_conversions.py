"""Runs conversions to float64 on the CPU, as in eager mode, since the card has no float64.

With TORCH_SPYRE_UNSUPPORTED_DTYPE=store they are ordinary ops.
"""

from typing import Any

import torch

from torch_spyre import _C
from torch_spyre._inductor.op_by_op import LocatedInterpreter
from torch_spyre._inductor.provenance import users_line
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedDtypeError
from torch_spyre.user_frames import current_line, warn_at

_MESSAGE = (
    f"{DEVICE_NAME} has no float64: a tensor converted to it comes back on the CPU. Call .cpu() "
    "first to say so, or convert to float32 to stay on the card; "
    "TORCH_SPYRE_UNSUPPORTED_DTYPE=store keeps float64 on the card."
)
_prims = torch.ops.prims


class HostConversions(LocatedInterpreter):
    """Interprets a graph. Ops on the result of a conversion to float64 run on the CPU too."""

    def run_node(self, node: torch.fx.Node) -> Any:
        leaves_card = _is_float64_conversion(node) and not _C._stores_unsupported_dtypes()
        operand = node.args[0] if leaves_card else None
        source = self.env.get(operand) if isinstance(operand, torch.fx.Node) else None
        if not isinstance(source, torch.Tensor) or source.device.type != DEVICE_NAME:
            return super().run_node(node)
        if _is_of_factory(node):
            raise UnsupportedDtypeError(torch.float64)
        warn_at(users_line(node) or current_line(), _MESSAGE, UserWarning)
        host = _prims.device_put.default(source, torch.device("cpu"))
        return _prims.convert_element_type.default(host, torch.float64)


def _is_float64_conversion(node: torch.fx.Node) -> bool:
    if node.target is _prims.convert_element_type.default:
        return node.args[1] is torch.float64
    return (
        node.target is torch.ops.aten._to_copy.default
        and node.kwargs.get("dtype") is torch.float64
        and node.kwargs.get("device") is None
    )


def _is_of_factory(node: torch.fx.Node) -> bool:
    """Return whether a node is part of an op that makes a tensor from none, such as `arange`."""
    op = node.meta.get("original_aten")
    schema = getattr(op, "_schema", None)
    return schema is not None and not any("Tensor" in str(a.type) for a in schema.arguments)
