"""Fake tensors of the card have the strides of the CPU's results."""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    wrap(undo, FakeTensorMode, "_dispatch_impl", _with_strides_of_cpu)


def _with_strides_of_cpu(original: Function) -> Function:
    def _dispatch_impl(
        self: Any, func: torch._ops.OpOverload, types: Any, args: Any, kwargs: Any
    ) -> Any:
        results = original(self, func, types, args, kwargs)
        # Imports PyTorch's reference ops, which are slow to import.
        from torch_spyre.ops.result_strides import rules

        rule = rules().get(func)
        if rule is None:
            return results
        first = results[0] if isinstance(results, tuple) else results
        # A copy to the host has its argument on a card.
        tensors = [first, *(value for value in args if isinstance(value, torch.Tensor))]
        if all(tensor.device.type != DEVICE_NAME for tensor in tensors):
            return results
        with self:
            strides = rule(args, first)
            if strides == tuple(first.stride()):
                return results
            first = torch.empty_strided(
                first.shape, strides, dtype=first.dtype, device=first.device
            )
        return (first, *results[1:]) if isinstance(results, tuple) else first

    return _dispatch_impl


PATCH = Patch(
    name="fake_strides",
    targets=(
        PrivateName(
            "torch._subclasses.fake_tensor.FakeTensorMode._dispatch_impl",
            ("func", "types", "args", "kwargs"),
        ),
    ),
    changes="The fake results of some ops have other strides: `ops/result_strides.py` lists them.",
    reason="Fake kernels of ATen ops can only be replaced for all devices, and decompositions go "
    "before them.",
    breaks="Strides of results differ from the CPU's, so that `view` of them fails.",
    apply=_apply,
    after_import="torch._subclasses.fake_tensor",
)
