"""A bundle: the loops of one kernel call, and the OpSpecs that the passes derive from them.

The passes of `pipeline.py` transform a `Bundle` from one form to the next. The back end compiles
`Bundle.stages`: lists of OpSpecs, each list one program, which run one after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import Buffer
from torch_spyre._inductor.loop_ir import LoopOp, format_loop_op
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.origin import Origin
from torch_spyre.cards import CardDescription, load_card


@dataclass(frozen=True)
class Tensor:
    """A tensor that a bundle accesses: its sizes and strides on the host, and its device layout."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    layout: SpyreTensorLayout | None = None
    # Storage offset in elements, for inputs that are views.
    offset: int = 0

    def as_buffer(self) -> Buffer:
        return Buffer(self.name, self.size, self.stride, self.dtype, self.layout)


@dataclass(frozen=True)
class Bundle:
    """Loops in order, the tensors that they access, and those visible outside of the bundle."""

    name: str
    ops: Sequence[LoopOp]
    tensors: Mapping[str, Tensor]
    # The arguments of the call, in order. Other tensors are in the pool while the bundle runs.
    arguments: Sequence[str]
    # Tensors that are written, and read after the bundle has run.
    results: frozenset[str]
    # Arguments that alias another argument partially: not element by element.
    partially_aliased: frozenset[str] = frozenset()
    # Groups of ops, each of which becomes one program.
    groups: Sequence[Sequence[LoopOp]] = ()
    # The ops of the user's program that the loops come from, for messages.
    user_ops: Sequence[str] = ()
    stages: Sequence[Sequence[OpSpec]] = ()
    # The card that the bundle is compiled for: passes take its limits and rates from here.
    card: CardDescription = field(default_factory=load_card)


def format_loops(bundle: Bundle, describe: Callable[[Origin], str] = str) -> str:
    """Return the text of the loops of a bundle, grouped by program, with their origins."""
    groups = bundle.groups or (bundle.ops,)
    return "\n\n".join(
        f"# program {number}\n" + "\n".join(format_loop_op(op, describe) for op in group)
        for number, group in enumerate(groups)
    )
