"""Samples of torch's op database, on the card and on the CPU.

The CPU gets what the card holds: each input makes the round trip first, so that 16-bit floats are
rounded before either computes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre.testing import formats

CARD, CPU = torch.device("spyre", 0), torch.device("cpu")
SEED = 1234
# Tensors that nobody has written to.
UNDEFINED = ("empty", "new_empty")
# How ops refuse their arguments.
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def has_values(op: OpInfo) -> bool:
    return not str(op.name).startswith(UNDEFINED)


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_storable(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.dtype in formats.DEVICE_FORMATS


@dataclass(frozen=True)
class Arguments:
    """What an op is called with, on one device."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self, function: Callable[..., Any], **more: Any) -> Any:
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
        def move(leaf: Any) -> Any:
            names_a_device = isinstance(leaf, torch.device) or leaf == "cpu"
            return device if names_a_device else leaf

        return self._mapped(lambda tensor: tensor.detach().to(device), move)

    def with_gaps(self) -> "Arguments":
        """Memory between the elements, which a copy to another device would close."""
        return self._mapped(_with_gaps)

    def dense(self) -> "Arguments":
        return self._mapped(lambda tensor: tensor.contiguous())

    def in_dtype(self, dtype: torch.dtype) -> "Arguments":
        """Floats in another type, be it as tensors or as dtypes."""
        return self._mapped(
            lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor,
            lambda leaf: (
                dtype if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf
            ),
        )

    def scaled(self, part: float, generator: torch.Generator) -> "Arguments":
        """Floats larger or smaller by a part of them, as chance will have it."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
            return tensor.detach() * (1 + part * signs)

        return self._mapped(moved)

    def _mapped(
        self,
        of_tensor: Callable[[torch.Tensor], torch.Tensor],
        of_leaf: Callable[[Any], Any] = lambda leaf: leaf,
    ) -> "Arguments":
        known: dict[int, torch.Tensor] = {}

        def mapped(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return of_leaf(leaf)
            # One tensor given twice stays one.
            if id(leaf) not in known:
                known[id(leaf)] = of_tensor(leaf)
            return known[id(leaf)]

        return Arguments(*tree_map(mapped, (self.input, self.args, self.kwargs)))


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or tensor.numel() < 2:
        return tensor
    spread = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype, device=tensor.device)[..., 1]
    return spread.copy_(tensor)


def arguments_of(sample: SampleInput) -> Arguments:
    return Arguments(sample.input, sample.args, sample.kwargs)


def samples_of(op: OpInfo, dtype: torch.dtype, count: int | None) -> list[tuple[int, SampleInput]]:
    """With their numbers; at most `count` of them, spread over the first."""
    torch.manual_seed(SEED)
    found = list(enumerate(islice(op.sample_inputs("cpu", dtype), count and 4 * count)))
    if count is None:
        return found
    step = max(1.0, len(found) / count)
    return [found[int(i * step)] for i in range(min(count, len(found)))]


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
        if kind == "gaps":
            return torch.zeros(*shape, 2, dtype=result.dtype, device=device)[..., 0]
        return torch.ones(shape, dtype=result.dtype, device=device)

    as_tuple = tuple(results) if isinstance(results, (tuple, list)) else results
    return tree_map(make, as_tuple)
