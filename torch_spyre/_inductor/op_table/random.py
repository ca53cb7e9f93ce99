"""The generator of random words."""

import torch

from torch_spyre._inductor.op_table.record import (
    EXACT,
    Kind,
    OpRecord,
    forms,
    intrinsic,
)
from torch_spyre.testing.philox import blocks


def _philox(*words: torch.Tensor) -> torch.Tensor:
    """Return the first word of each block, from a counter of four words and a key of two."""
    operands = [word.numpy() for word in torch.broadcast_tensors(*words)]
    first = blocks(operands[:4], operands[4:])[0]
    return torch.from_numpy(first.astype("uint32").view("int32"))


RECORDS = (
    OpRecord(
        "philox",
        Kind.POINTWISE,
        arity=6,
        ktir=forms(integers=intrinsic("spyreop.philox")),
        reference=_philox,
        exactness=EXACT,
        cost="random",
        loop_ops=("philox",),
        is_custom_loop_op=True,
    ),
)
