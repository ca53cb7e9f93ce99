"""Runs entries of torch's op database on the card and on the CPU, and compares.

The CPU gets what the card holds: each input makes the round trip first, so that 16-bit floats are
rounded before either computes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre.testing import formats

CARD, CPU = torch.device("spyre", 0), torch.device("cpu")
SEED = 1234
# Where an op is composed of several, each step may round once.
ROUNDINGS = 4
TOLERANCE = {torch.float16: ROUNDINGS * 2**-10, torch.bfloat16: ROUNDINGS * 2**-8}
TOLERANCE_OF_FLOAT32 = 1e-5
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
# Tensors that nobody has written to.
UNDEFINED = ("empty", "new_empty")


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class Arguments:
    """What an op is called with, on one device."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self, function: Any, **more: Any) -> Any:
        torch.manual_seed(SEED)
        return function(self.input, *self.args, **self.kwargs, **more)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return tensors_of((self.input, self.args, self.kwargs))

    @property
    def device(self) -> torch.device:
        """Where results belong. Factories without a device argument make CPU tensors."""
        leaves = tree_leaves((self.input, self.args, self.kwargs))
        found = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        return next(iter([*found, *(t.device for t in self.tensors)]), CPU)

    def moved_to(self, device: torch.device) -> "Arguments":
        known: dict[int, torch.Tensor] = {}

        def move(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                # One tensor given twice stays one.
                return known.setdefault(id(leaf), leaf.detach().to(device))
            names_a_device = isinstance(leaf, torch.device) or leaf == "cpu"
            return device if names_a_device else leaf

        return Arguments(*tree_map(move, (self.input, self.args, self.kwargs)))


def pairs(samples: Iterable[SampleInput]) -> Iterator[tuple[Arguments, Arguments]]:
    """Arguments for the card, and the same for the CPU; without what the card refuses to hold."""
    for sample in samples:
        given = Arguments(sample.input, sample.args, sample.kwargs)
        if all(is_storable(tensor) for tensor in given.tensors):
            card = given.moved_to(CARD)
            yield card, card.moved_to(CPU)
            continue
        with pytest.raises(REFUSALS):
            given.moved_to(CARD)


def samples_of(op: OpInfo, dtype: torch.dtype, count: int) -> list[SampleInput]:
    """At most `count`, spread over the first of them."""
    torch.manual_seed(SEED)
    found = list(islice(op.sample_inputs("cpu", dtype), 4 * count))
    step = max(1.0, len(found) / count)
    return [found[int(i * step)] for i in range(min(count, len(found)))]


def is_storable(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.dtype in formats.DEVICE_FORMATS


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
            compare_values(one.detach().cpu(), other.detach().to(CARD).cpu())


def compare_values(got: torch.Tensor, wanted: torch.Tensor) -> None:
    if torch.equal(got, wanted):
        return
    if not wanted.dtype.is_floating_point:
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    tolerance = TOLERANCE.get(wanted.dtype, TOLERANCE_OF_FLOAT32)
    finite = wanted[wanted.isfinite()].float().abs()
    scale = finite.max().item() if finite.numel() else 1.0
    torch.testing.assert_close(
        got.float(), wanted.float(), rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )


def check(run: Callable[[Arguments], Any], card: Arguments, cpu: Arguments, **how: bool) -> bool:
    """Runs on both. False if there is nothing to compare, because the CPU refuses the sample."""
    try:
        wanted = run(cpu)
    except REFUSALS:
        with pytest.raises(REFUSALS):
            run(card)
        return False
    homeless = [tensor for tensor in tensors_of(wanted) if not is_storable(tensor)]
    if homeless:
        with pytest.raises(REFUSALS, match=missing(homeless[0])):
            run(card)
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


def gradients(arguments: Arguments, op: OpInfo, sample: SampleInput) -> list[torch.Tensor]:
    leaves = [t.requires_grad_() for t in arguments.tensors if t.dtype.is_floating_point]
    output = sample.output_process_fn_grad(arguments.call(op))
    results = [t for t in tensors_of(output) if t.requires_grad]
    if not results:
        return []
    # Exact in every float dtype.
    weights = [(torch.arange(t.numel()) % 8 / 8 + 0.5).reshape(t.shape).to(t) for t in results]
    found = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def new_outputs(results: Any, kind: str, device: torch.device) -> Any:
    """Tensors for out=: of the right shape, of none, of a wrong one, or with gaps."""

    def make(result: torch.Tensor) -> torch.Tensor:
        shape = {"none": (0,), "wrong": (*result.shape, 3)}.get(kind, tuple(result.shape))
        options = {"dtype": result.dtype, "device": device}
        if kind == "gaps":
            return torch.zeros(*shape, 2, **options)[..., 0]
        return torch.ones(shape, **options)

    as_tuple = tuple(results) if isinstance(results, (tuple, list)) else results
    return tree_map(make, as_tuple)
