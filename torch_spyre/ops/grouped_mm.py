"""`transformers::grouped_mm_fallback`, the matmul of experts, as `aten._grouped_mm`.

In graphs, transformers calls this custom op instead of `aten._grouped_mm`. It reads the ends of
groups on the host, forward and backward: a graph would fall back, and gradients could not be
traced.
"""

import torch

# A kernel may be registered before its op, which transformers defines when it is imported.
_library = torch.library.Library("transformers", "IMPL")


def register() -> None:
    # Autograd too: the gradient follows from the ops that the kernel calls.
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        _library.impl("grouped_mm_fallback", _grouped_mm, key)


def _grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    from torch_spyre._inductor import decompositions

    decomposition = decompositions.table()[torch.ops.aten._grouped_mm.default]
    result: torch.Tensor = decomposition(input, weight, offs)
    return result
