"""The generator of random words, and the product that scales them to a range of integers."""

import torch

from torch_spyre._inductor.op_table.record import (
    EXACT,
    Kind,
    OpRecord,
    forms,
    intrinsic,
)

_MASK, _SIGN = 0xFFFFFFFF, 0x80000000


def _upper_half(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the upper halves of the unsigned products of 32-bit words, as signed ones."""
    return _signed(_high(_word(left) * _word(right)))


def _philox(*words: torch.Tensor) -> torch.Tensor:
    """Return the first word of each Philox 4x32-10 block, as a signed one.

    The operands are a counter of four words and a key of two.
    """
    a, b, c, d, e, f = map(_word, words)
    for _ in range(10):
        # Products wrap in 64 bits, and so have all their bits.
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = _high(second) ^ b ^ e, _word(second)
        c, d = _high(first) ^ d ^ f, _word(first)
        e, f = _word(e + 0x9E3779B9), _word(f + 0xBB67AE85)
    return _signed(a)


def _word(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.int64) & _MASK


def _high(products: torch.Tensor) -> torch.Tensor:
    return (products >> 32) & _MASK


def _signed(words: torch.Tensor) -> torch.Tensor:
    return (words ^ _SIGN) - _SIGN


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
