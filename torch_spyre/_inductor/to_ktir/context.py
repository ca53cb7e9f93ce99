"""The context in which the loops and ops of a kernel are emitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.access import Access
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.transfers import Transfers


@dataclass(frozen=True)
class KernelContext:
    """A kernel that is being emitted."""

    name: str
    specs: Sequence[OpSpec]
    plan: TilePlan
    emitter: Emitter
    transfers: Transfers
    # Accesses of the index tensors, by tensor name.
    index_tensors: Mapping[str, Access]

    @property
    def space(self) -> IterationSpace:
        return self.plan.space
