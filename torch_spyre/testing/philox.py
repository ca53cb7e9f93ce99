"""The golden model of Philox 4x32-10, the counter-based generator of random words.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_ROUNDS = 10
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_FIRST_STEP, _SECOND_STEP = 0x9E3779B9, 0xBB67AE85
_MASK, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)


def blocks(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Words, Words, Words, Words]:
    """Return the four words of each block, from arrays of the counter's four and the key's two."""
    a, b, c, d = (np.asarray(word).astype(np.uint32).astype(np.uint64) for word in counter)
    e, f = (np.asarray(word).astype(np.uint32).astype(np.uint64) for word in key)
    for _ in range(_ROUNDS):
        first, second = _FIRST * a, _SECOND * c
        a, b = (second >> _SHIFT) ^ b ^ e, second & _MASK
        c, d = (first >> _SHIFT) ^ d ^ f, first & _MASK
        e, f = (e + np.uint64(_FIRST_STEP)) & _MASK, (f + np.uint64(_SECOND_STEP)) & _MASK
    return a, b, c, d
