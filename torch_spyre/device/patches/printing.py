"""Printing tensors: PyTorch formats element by element, dozens of copies for a few numbers."""

import re

import torch

from torch_spyre.device.patches.wrapping import Function, is_spyre, wrap


def apply() -> None:
    wrap(torch.Tensor, "__repr__", _printing_once_copied)


def _printing_once_copied(original: Function) -> Function:
    def __repr__(self: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        if not is_spyre(self) or tensor_contents is not None:
            return str(original(self, tensor_contents=tensor_contents))
        if self.numel() == 0:
            return _device_last(original(self))
        try:
            host = self.detach().cpu()
        except RuntimeError as error:
            shape = tuple(self.shape)
            return f"SpyreTensor(shape={shape}, dtype={self.dtype}, device={self.device}): {error}"
        contents = torch._tensor_str._tensor_str(host, len("tensor("))
        text = str(original(self, tensor_contents=contents))
        end = text.rindex(contents) + len(contents)
        return text[:end] + _device_last(text[end:])

    return __repr__


# Upstream prints the CPU copy with the device behind size and dtype; scripts compare the text.
_DEVICE_FIRST = re.compile(r"(device='[^']*')((?:,\s+(?:size=\([^)]*\)|dtype=[\w.]+))+)")


def _device_last(suffixes: str) -> str:
    return _DEVICE_FIRST.sub(lambda found: found[2].lstrip(", \n") + ", " + found[1], suffixes)
