"""From OpSpecs to KTIR: tiles, loops over them, and the ops on them."""

from torch_spyre._inductor.to_ktir.kernel import build_kernel, build_module

__all__ = ["build_kernel", "build_module"]
