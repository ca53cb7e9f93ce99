"""The golden model of Philox 4x32-10 against the test vectors of its authors (Random123)."""

import numpy as np
import pytest
import torch

from torch_spyre._inductor.op_table import record_of
from torch_spyre.testing.philox import blocks

ONES = 0xFFFFFFFF
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    # The digits of pi.
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_blocks_are_the_published_ones(counter, key, expected):
    assert tuple(int(word) for word in blocks(counter, key)) == expected


def test_each_element_of_arrays_has_its_block():
    counters = [np.arange(5, dtype=np.uint32) + word for word in range(4)]
    together = blocks(counters, (7, 9))
    for i in range(5):
        alone = blocks([counter[i] for counter in counters], (7, 9))
        assert [words[i] for words in together] == list(alone)


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_the_reference_of_the_op_record_has_the_published_words(counter, key, expected):
    words = [torch.tensor([word - 2**32 if word >= 2**31 else word]) for word in (*counter, *key)]
    (first,) = record_of("philox").reference(*words).tolist()
    assert first % 2**32 == expected[0]
