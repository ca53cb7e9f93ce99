"""Describe the arguments of an op as text: the properties that select its kernel."""

from typing import Any

import torch

from torch_spyre.dtypes import RECORDS

_ABBREVIATIONS = {dtype: record.abbreviation for dtype, record in RECORDS.items()}


def signature(args: Any, kwargs: dict[str, Any]) -> str:
    """Return the arguments as text: tensors by dtype and sizes, with strides if not contiguous."""
    texts = [_text(value) for value in args]
    texts += [f"{name}={_text(value)}" for name, value in kwargs.items() if value is not None]
    return f"({', '.join(texts)})"


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, torch.dtype):
        return _ABBREVIATIONS.get(value, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return value.type
    return repr(value)


def _tensor(tensor: torch.Tensor) -> str:
    dtype = _ABBREVIATIONS.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    text = f"{dtype}[{','.join(map(str, tensor.shape))}]"
    if not tensor.is_contiguous():
        text += f" by {','.join(map(str, tensor.stride()))}"
    return text if tensor.device.type == "spyre" else f"{text} on {tensor.device.type}"
