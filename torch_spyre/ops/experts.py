"""Products of experts, as transformers asks for them in graphs that it compiles.

There it avoids `aten._grouped_mm` and calls an op of its own, which reads where groups end on the
host, forward and backward: a graph would break its promise to stay on the card, and gradients could
not be traced at all. On the card it is the product that `aten._grouped_mm` is.
"""

import torch

# Kernels may come before their op, which transformers defines when it is imported, if ever.
_library = torch.library.Library("transformers", "IMPL")


def register() -> None:
    # In place of its gradient too, which follows from the ops that this one is made of.
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        _library.impl("grouped_mm_fallback", _grouped_mm, key)


def _grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    from torch_spyre._inductor import decompositions

    product = decompositions.table()[torch.ops.aten._grouped_mm.default]
    result: torch.Tensor = product(input, weight, offs)
    return result
