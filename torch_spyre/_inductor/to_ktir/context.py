"""The context in which the loops and ops of a kernel are emitted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import LocationAttr

from torch_spyre._inductor.op_spec import OpSpec, TensorArg, index_names
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.tiling.access import Access
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.transfers import Transfers
from torch_spyre._inductor.work_division import CoreMapping
from torch_spyre.ktir.locations import OPSPECS, file_position, location, named, with_source


@dataclass(frozen=True)
class KernelContext:
    """A kernel that is being emitted."""

    name: str
    specs: Sequence[OpSpec]
    plan: TilePlan
    mapping: CoreMapping
    emitter: Emitter
    transfers: Transfers
    # Accesses of the index tensors, by tensor name.
    index_tensors: Mapping[str, Access]

    @contextmanager
    def at(self, spec: OpSpec) -> Iterator[None]:
        """Emit ops of a spec."""
        with self.emitter.at(self.locations.get(id(spec))):
            yield

    @contextmanager
    def at_read(self, arg: TensorArg) -> Iterator[None]:
        """Emit the load of a tensor. If it is indexed, the op that indexes may be another one."""
        source = _source_of(self._index_origins.get(arg))
        with self.emitter.at(with_source(self.emitter.indices.location, source)):
            yield

    @cached_property
    def _index_origins(self) -> Mapping[TensorArg, Origin]:
        return {
            arg: spec.index_origin
            for spec in reversed(self.specs)
            for arg in spec.inputs
            if spec.index_origin is not None and index_names(arg)
        }

    @cached_property
    def locations(self) -> Mapping[int, LocationAttr]:
        """The locations of the specs by identity: their numbers, and the lines they come from."""
        return {
            id(spec): location(file_position(OPSPECS, number), _source_of(spec.origin))
            for number, spec in enumerate(self.specs, 1)
        }

    @property
    def space(self) -> IterationSpace:
        return self.plan.space


def _source_of(origin: Origin | None) -> LocationAttr | None:
    """Return an origin as a location of MLIR: the op and its module, at the line."""
    if origin is None:
        return None
    line = file_position(origin.file, origin.line) if origin.file else None
    name = origin.op or origin.node
    return named(f"{name} in {origin.module}" if origin.module else name, line)
