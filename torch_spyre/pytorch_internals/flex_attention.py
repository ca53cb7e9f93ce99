"""`flex_attention` on the card: runs op by op, without fusing the user's functions."""

from contextlib import ExitStack

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    from torch.nn.attention import flex_attention

    wrap(undo, flex_attention, "_validate_device", _accepting_cards)


def _accepting_cards(original: Function) -> Function:
    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != DEVICE_NAME:
            original(query, key, value)

    return _validate_device


PATCH = Patch(
    name="flex_attention",
    targets=(
        PrivateName(
            "torch.nn.attention.flex_attention._validate_device", ("query", "key", "value")
        ),
    ),
    changes="`flex_attention` accepts tensors on a card.",
    reason="The function accepts a fixed list of devices, although its ops run on any.",
    breaks="`flex_attention` raises 'FlexAttention is only supported on ...' for cards.",
    apply=_apply,
    after_import="torch.nn.attention.flex_attention",
)
