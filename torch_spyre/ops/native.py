"""The overloads of registered ops that have a compiled eager kernel."""

from collections.abc import Iterator

import torch

from torch_spyre.ops.fallback_reasons import CPU_KERNELS
from torch_spyre.ops.registry import ENTRIES, Kind, find_entry

_COMPILED = (Kind.LOWERING, Kind.DECOMPOSITION)


def eager_overloads() -> Iterator[torch._ops.OpOverload]:
    """Yield every overload whose eager kernel is planned by the compiler."""
    # Packets list overloads of TorchScript too, which the dispatcher does not have.
    dispatched = set(torch._C._dispatch_get_all_op_names())
    for name in _op_names():
        for packet_name in (name, f"{name}_"):
            packet = getattr(torch.ops.aten, packet_name, None)
            if packet is None:
                continue
            overloads = (getattr(packet, overload_name) for overload_name in packet.overloads())
            for overload in overloads:
                if overload.name() in dispatched and _has_compiled_kernel(overload):
                    yield overload


def _op_names() -> Iterator[str]:
    for entry in ENTRIES.values():
        if entry.is_overload or entry.runs_op_by_op or entry.category == "creation":
            continue
        # Graphs may contain an in-place form; here the entry of the functional form covers it.
        is_in_place = entry.name.removesuffix("_") != entry.name
        if entry.kind in _COMPILED and not (is_in_place and entry.name[:-1] in ENTRIES):
            yield entry.name


def _has_compiled_kernel(overload: torch._ops.OpOverload) -> bool:
    """Return whether a compiled kernel can implement the overload."""
    schema = overload._schema
    op, variant = schema.name.removeprefix("aten::"), schema.overload_name
    entry = find_entry(op, variant)
    if entry is None or entry.is_overload:  # it has another kernel
        return False
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), composite):
        # PyTorch composes it before it reaches a device, unless it is kept whole.
        return f"{op}.{variant or 'default'}" in CPU_KERNELS
    types = [str(argument.type) for argument in schema.arguments]
    if any("Dimname" in type or type == "Generator" for type in types):
        return False
    num_written = sum(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    )
    if num_written != sum(result.alias_info is not None for result in schema.returns):
        # It writes arguments that it does not return.
        return False
    return bool(schema.returns) and all("Tensor" in str(result.type) for result in schema.returns)
