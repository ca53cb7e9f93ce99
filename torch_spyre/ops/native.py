"""The overloads that have an eager kernel: by name, without importing the compiler."""

from collections.abc import Iterator

import torch

from torch_spyre.ops.table import LOWERED, MADE_OF_OTHERS

# Copies, and filling, which copies one element, in any dtype: the extension's own kernels.
COPIES = ("clone", "copy", "copy_")
_ELSEWHERE = ("aten::fill_.Scalar", "aten::fill_.Tensor")


# Ops that return more than tensors: they are composed of the ones above.
COMPOSED = (
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    "bincount",
)


def eager_overloads() -> Iterator[torch._ops.OpOverload]:
    # Packets list overloads of TorchScript's too, which no dispatcher knows.
    known = set(torch._C._dispatch_get_all_op_names())
    for name in _names():
        for packet_name in (name, f"{name}_"):
            packet = getattr(torch.ops.aten, packet_name, None)
            if packet is None:
                continue
            for variant in packet.overloads():
                overload = getattr(packet, variant)
                if overload.name() in known and _wanted(overload):
                    yield overload


def _names() -> Iterator[str]:
    """Every op that computes: views and copies are the extension's own."""
    for kind, names in LOWERED.items():
        if kind not in ("view", "creation"):
            yield from (name for name in names if name not in COPIES)
    yield from MADE_OF_OTHERS


def _wanted(overload: torch._ops.OpOverload) -> bool:
    """Not those that have a kernel, or that PyTorch composes before they reach a device."""
    if overload.name() in _ELSEWHERE:
        return False
    keys = torch._C.DispatchKey
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if has_kernel(overload.name(), keys.CompositeImplicitAutograd):
        # But for those that the extension keeps whole.
        return bool(has_kernel(overload.name(), keys.PrivateUse1))
    arguments = overload._schema.arguments
    kinds = [str(argument.type) for argument in arguments]
    if any("Dimname" in kind or kind == "Generator" for kind in kinds):
        return False
    written = sum(
        argument.alias_info is not None and argument.alias_info.is_write for argument in arguments
    )
    if written != sum(each.alias_info is not None for each in overload._schema.returns):
        # It changes more than it returns.
        return False
    returns = [str(each.type) for each in overload._schema.returns]
    return bool(returns) and all("Tensor" in kind for kind in returns)
