"""Emits KTIR from OpSpecs: loops over tiles, transfers between memory and scratchpad, and ops."""

from torch_spyre._inductor.to_ktir.kernel import build_kernel, build_module

__all__ = ["build_kernel", "build_module"]
