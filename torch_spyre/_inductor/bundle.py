"""A bundle: what one call of a compiled kernel does, from loops to OpSpecs.

The passes of `pipeline.py` take a `Bundle` from one form to the next; `Bundle.stages` is what the
back end gets: lists of OpSpecs, each list one program on the card, run one after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import Buffer
from torch_spyre._inductor.loop_ir import LoopOp, text_of
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre.cards import CardDescription, load_card


@dataclass(frozen=True)
class Tensor:
    """Memory that a bundle touches: sizes and strides on the host, and where it lies."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    layout: SpyreTensorLayout | None = None
    # Elements from the start of its storage, for inputs that are views.
    offset: int = 0

    def as_buffer(self) -> Buffer:
        return Buffer(self.name, self.size, self.stride, self.dtype, self.layout)


@dataclass(frozen=True)
class Bundle:
    """Loops in order, the tensors they touch, and which of these others can see."""

    name: str
    ops: Sequence[LoopOp]
    tensors: Mapping[str, Tensor]
    # Arguments of the call, in order. All others live in the pool while the bundle runs.
    arguments: Sequence[str]
    # Written here and needed afterwards.
    results: frozenset[str]
    # Arguments that share memory with others, though not point for point.
    partially_aliased: frozenset[str] = frozenset()
    # Groups of ops, each of which becomes one program.
    groups: Sequence[Sequence[LoopOp]] = ()
    stages: Sequence[Sequence[OpSpec]] = ()
    # The card that the bundle is compiled for: passes take its limits and rates from here.
    card: CardDescription = field(default_factory=load_card)


def loop_text(bundle: Bundle) -> str:
    """The loops of a bundle as people read them, grouped by program."""
    groups = bundle.groups or (bundle.ops,)
    return "\n\n".join(
        f"# program {number}\n" + "\n".join(text_of(op) for op in group)
        for number, group in enumerate(groups)
    )
