"""The generator of random words, and the product that scales them to a range of integers."""

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
    return torch.from_numpy(first.astype("uint32").view("int32")).long()


def _upper_half(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the upper halves of the unsigned products of 32-bit words."""
    wide = [operand.numpy().astype("uint32").astype("uint64") for operand in (left, right)]
    return torch.from_numpy((wide[0] * wide[1] >> 32).astype("uint32").view("int32")).long()


RECORDS = (
    OpRecord(
        "mulhigh",
        Kind.POINTWISE,
        arity=2,
        ktir=forms(integers=intrinsic("spyreop.mulhui32toi32", "mulhui")),
        reference=_upper_half,
        exactness=EXACT,
        loop_ops=("mulhigh",),
        is_custom_loop_op=True,
    ),
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
