"""Runs entries of torch's op database on the card and on the CPU, and compares."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves

from torch_spyre.testing.op_samples import (
    CARD,
    CPU,
    EXPECTED_ERRORS,
    Arguments,
    arguments_of,
    is_storable,
    tensors_of,
)
from torch_spyre.testing.tolerances import difference


def pairs(samples: Iterable[SampleInput]) -> Iterator[tuple[Arguments, Arguments]]:
    """Arguments for the card, and the same for the CPU; without what the card refuses to hold."""
    for sample in samples:
        given = arguments_of(sample)
        if all(is_storable(tensor) for tensor in given.tensors):
            card = given.moved_to(CARD)
            yield card, card.moved_to(CPU)
            continue
        with pytest.raises(EXPECTED_ERRORS):
            given.moved_to(CARD)


def compare(
    got: Any,
    wanted: Any,
    *,
    device: torch.device = CARD,
    values: bool = True,
    strides: bool = False,
) -> None:
    """Same structure; tensors on the card, equal after rounding to its formats, or nearly so."""
    got_leaves, wanted_leaves = tree_leaves(got), tree_leaves(wanted)
    assert len(got_leaves) == len(wanted_leaves)
    for one, other in zip(got_leaves, wanted_leaves, strict=True):
        if not isinstance(other, torch.Tensor):
            assert isinstance(other, torch.device) or one == pytest.approx(other, nan_ok=True)
            continue
        assert one.device == device
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if strides and one.numel() > 1:
            assert one.stride() == other.stride()
        if values:
            assert difference(one.detach().cpu(), other.detach().to(CARD).cpu()) is None


def check(run: Callable[[Arguments], Any], card: Arguments, cpu: Arguments, **how: bool) -> bool:
    """Runs on both. False if there is nothing to compare, because the CPU refuses the sample."""
    try:
        wanted = run(cpu)
    except EXPECTED_ERRORS:
        with pytest.raises(EXPECTED_ERRORS):
            run(card)
        return False
    homeless = [tensor for tensor in tensors_of(wanted) if not is_storable(tensor)]
    if homeless:
        try:
            found = run(card)
        except EXPECTED_ERRORS as error:
            assert re.search(missing(homeless[0]), str(error)), error
        else:
            # Asked for float64 without a device, a tensor comes back to the host.
            for one, other in zip(tensors_of(found), tensors_of(wanted), strict=True):
                assert (one.device.type, one.dtype) == ("cpu", torch.float64)
                assert difference(one.float(), other.float().to(CARD).cpu()) is None
        return True
    compare(run(card), wanted, device=card.device, **how)
    compare(card.tensors, cpu.tensors)  # what the op changed of its arguments, or left alone
    return True


def missing(result: torch.Tensor) -> str:
    """What the refusal of such a result must say."""
    if result.layout != torch.strided:
        return "sparse"
    names = {torch.float64: "Double", torch.complex64: "ComplexFloat", torch.uint64: "UInt64"}
    return f"not support dtype {names.get(result.dtype, 'Complex')}"
