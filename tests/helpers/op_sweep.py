"""Run entries of PyTorch's op database on the card and on the CPU, and compare the results."""

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
    """Yield arguments on the card and on the CPU, without those of unsupported dtypes."""
    for sample in samples:
        given = arguments_of(sample)
        if all(is_storable(tensor) for tensor in given.tensors):
            card = given.moved_to(CARD)
            yield card, card.moved_to(CPU)
            continue
        with pytest.raises(EXPECTED_ERRORS):
            given.moved_to(CARD)


def compare(
    actual: Any,
    expected: Any,
    *,
    device: torch.device = CARD,
    values: bool = True,
    strides: bool = False,
) -> None:
    """Assert equal structures, devices, dtypes and shapes, and values within tolerance."""
    actual_leaves, expected_leaves = tree_leaves(actual), tree_leaves(expected)
    assert len(actual_leaves) == len(expected_leaves)
    for actual, expected in zip(actual_leaves, expected_leaves, strict=True):
        if not isinstance(expected, torch.Tensor):
            is_device = isinstance(expected, torch.device)
            assert is_device or actual == pytest.approx(expected, nan_ok=True)
            continue
        assert actual.device == device
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if strides and actual.numel() > 1:
            assert actual.stride() == expected.stride()
        if values:
            assert difference(actual.detach().cpu(), expected.detach().to(CARD).cpu()) is None


def check(
    run: Callable[[Arguments], Any], card: Arguments, cpu: Arguments, **options: bool
) -> bool:
    """Compare the results of card and CPU. Return False if the CPU rejects the sample."""
    try:
        expected = run(cpu)
    except EXPECTED_ERRORS:
        with pytest.raises(EXPECTED_ERRORS):
            run(card)
        return False
    unsupported = [tensor for tensor in tensors_of(expected) if not is_storable(tensor)]
    if unsupported:
        try:
            actual = run(card)
        except EXPECTED_ERRORS as error:
            assert re.search(unsupported_message(unsupported[0]), str(error)), error
        else:
            # A conversion to float64 without a device argument returns a host tensor.
            for result, reference in zip(tensors_of(actual), tensors_of(expected), strict=True):
                assert (result.device.type, result.dtype) == ("cpu", torch.float64)
                assert difference(result.float(), reference.float().to(CARD).cpu()) is None
        return True
    compare(run(card), expected, device=card.device, **options)
    # In-place changes, or none.
    compare(card.tensors, cpu.tensors, values=options.get("values", True))
    return True


def unsupported_message(result: torch.Tensor) -> str:
    """Return a pattern for the error about a result that the card cannot hold."""
    if result.layout != torch.strided:
        return "sparse"
    if result.dtype == torch.complex32:  # views of float16 tensors are rejected with a reason
        return "not support dtype Complex|complex32 holds the host's float16"
    names = {torch.float64: "Double", torch.complex64: "ComplexFloat", torch.uint64: "UInt64"}
    return f"not support dtype {names.get(result.dtype, 'Complex')}"
