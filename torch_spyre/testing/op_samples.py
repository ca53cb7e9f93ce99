"""Samples of torch's op database, on the card and on the CPU.

Both compute with the same inputs: these are copied to the card and back first, so that 16-bit
floats are rounded to the card's format.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre.testing import formats

CARD, CPU = torch.device("spyre", 0), torch.device("cpu")
SEED = 1234
# Ops that return uninitialized tensors.
UNDEFINED = ("empty", "new_empty")
# Errors that ops raise for unsupported arguments.
EXPECTED_ERRORS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


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
    """The arguments of an op, on one device."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self, function: Callable[..., Any], **options: Any) -> Any:
        """Call a function with these arguments and a fixed seed."""
        torch.manual_seed(SEED)
        return function(self.input, *self.args, **self.kwargs, **options)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return tensors_of((self.input, self.args, self.kwargs))

    @property
    def device(self) -> torch.device:
        """Return the device of the results; CPU for factories without a device argument."""
        leaves = tree_leaves((self.input, self.args, self.kwargs))
        devices = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        return next(iter([*devices, *(t.device for t in self.tensors)]), CPU)

    def moved_to(self, device: torch.device) -> "Arguments":
        def move(leaf: Any) -> Any:
            is_device = isinstance(leaf, torch.device) or leaf == "cpu"
            return device if is_device else leaf

        return self._mapped(lambda tensor: tensor.detach().to(device), move)

    def noncontiguous(self) -> "Arguments":
        """Return the arguments as noncontiguous tensors; a copy to another device is contiguous."""
        return self._mapped(_to_noncontiguous)

    def in_memory_order(self, order: str) -> "Arguments":
        """Return dense arguments with permuted strides: "permuted" or "channels_last"."""
        return self._mapped(MEMORY_ORDERS[order])

    def fake(self, mode: FakeTensorMode) -> "Arguments":
        return self._mapped(mode.from_tensor)

    @property
    def strides(self) -> list[tuple[int, ...]]:
        return [tensor.stride() for tensor in self.tensors]

    def contiguous(self) -> "Arguments":
        return self._mapped(lambda tensor: tensor.contiguous())

    def in_dtype(self, dtype: torch.dtype) -> "Arguments":
        """Return the arguments with float tensors and float dtypes replaced by `dtype`."""
        return self._mapped(
            lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor,
            lambda leaf: (
                dtype if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf
            ),
        )

    def perturbed(self, fraction: float, generator: torch.Generator) -> "Arguments":
        """Return the arguments with floats randomly increased or decreased by a fraction."""

        def perturb(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
            return tensor.detach() * (1 + fraction * signs)

        return self._mapped(perturb)

    def _mapped(
        self,
        map_tensor: Callable[[torch.Tensor], torch.Tensor],
        map_leaf: Callable[[Any], Any] = lambda leaf: leaf,
    ) -> "Arguments":
        mapped_tensors: dict[int, torch.Tensor] = {}

        def mapped(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return map_leaf(leaf)
            # Two references to one tensor stay references to one tensor.
            if id(leaf) not in mapped_tensors:
                mapped_tensors[id(leaf)] = map_tensor(leaf)
            return mapped_tensors[id(leaf)]

        return Arguments(*tree_map(mapped, (self.input, self.args, self.kwargs)))


def _to_noncontiguous(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or tensor.numel() < 2:
        return tensor
    spread = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype, device=tensor.device)[..., 1]
    return spread.copy_(tensor)


def _to_permuted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def _to_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    memory_formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory_format = memory_formats.get(tensor.dim())
    return tensor if memory_format is None else tensor.contiguous(memory_format=memory_format)


MEMORY_ORDERS = {"permuted": _to_permuted, "channels_last": _to_channels_last}


def arguments_of(sample: SampleInput) -> Arguments:
    return Arguments(sample.input, sample.args, sample.kwargs)


def samples_of(op: OpInfo, dtype: torch.dtype, count: int | None) -> list[tuple[int, SampleInput]]:
    """Return samples with their indices; at most `count`, spread over the first 4 * `count`."""
    torch.manual_seed(SEED)
    samples = list(enumerate(islice(op.sample_inputs("cpu", dtype), count and 4 * count)))
    if count is None:
        return samples
    step = max(1.0, len(samples) / count)
    return [samples[int(i * step)] for i in range(min(count, len(samples)))]


def gradients(arguments: Arguments, op: OpInfo, sample: SampleInput) -> list[torch.Tensor]:
    """Return the gradients of an op's float arguments for fixed gradients of its results."""
    leaves = [t.requires_grad_() for t in arguments.tensors if t.dtype.is_floating_point]
    output = sample.output_process_fn_grad(arguments.call(op))
    results = [t for t in tensors_of(output) if t.requires_grad]
    if not results:
        return []
    # Gradients of the results; exact in every float dtype.
    weights = [(torch.arange(t.numel()) % 8 / 8 + 0.5).reshape(t.shape).to(t) for t in results]
    argument_gradients = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [gradient for gradient in argument_gradients if gradient is not None]


def new_outputs(results: Any, kind: str, device: torch.device) -> Any:
    """Return tensors for out=: of the matching shape, empty, mismatched, or noncontiguous."""

    def make(result: torch.Tensor) -> torch.Tensor:
        shape = {"empty": (0,), "mismatched": (*result.shape, 3)}.get(kind, tuple(result.shape))
        if kind == "noncontiguous":
            return torch.zeros(*shape, 2, dtype=result.dtype, device=device)[..., 0]
        return torch.ones(shape, dtype=result.dtype, device=device)

    as_tuple = tuple(results) if isinstance(results, (tuple, list)) else results
    return tree_map(make, as_tuple)
