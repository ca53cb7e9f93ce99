"""Gathers and scatters as the passes and the emitter see them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Symbol

from torch_spyre._inductor.layouts.graph import LayoutOp
from torch_spyre._inductor.layouts.sticks import ANY, Requirement, StickCandidate
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.multi_loop.indexed import tiling
from torch_spyre._inductor.multi_loop.indexed.emission import IndexedEmitter
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import register
from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table.indexed import GATHER, SCATTERS
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.tiles import Frame

if TYPE_CHECKING:
    from torch_spyre._inductor.verification.bounds import Bounds
    from torch_spyre._inductor.verification.positions import Grid

# The dimension that errors of the card name, `InvalidIndex::kInScratchpad` of the driver.
_IN_SCRATCHPAD = -1


class IndexedOp(MultiLoopOp):
    """The middle dim of three is indexed: that of the table, which is `scanned` in a gather.

    In a scatter the table is the result, and values and indices are scanned.
    """

    overload = None
    names = (GATHER, *SCATTERS.values())
    constants = ()
    roles = {"outer": "c0", "column": "c1", "inner": "c2", "scanned": "r0"}

    def stick_candidates(self, op: LayoutOp) -> Sequence[StickCandidate]:
        """Return sticks along the inner dim if there is one, else along column and scanned dim.

        Indices may have any sticks. Sticks along the outer dim would leave fewer slices of it, so
        they are the last choice, for a result that has no other dim.
        """
        outer, column, inner, scanned = (
            name if name in op.loops else None for name in self.roles.values()
        )
        candidates = [(inner, inner), (column, scanned)]
        if inner is None and column is None:
            candidates.append((outer, outer))
        return [
            StickCandidate(written, self._reads(op, written, read))
            for written, read in dict.fromkeys(candidates)
            if written is not None or (inner is None and column is None)
        ]

    def _reads(
        self, op: LayoutOp, written: Requirement, scanned: Requirement
    ) -> tuple[Requirement, ...]:
        return (scanned, ANY) if op.kind == GATHER else (written, ANY, scanned)

    def can_merge(self, group: Sequence[LoopOp], op: LoopOp) -> bool:
        return False

    def core_splits(
        self, specs: Sequence[OpSpec], space: IterationSpace, cores: int
    ) -> Mapping[Symbol, int]:
        return tiling.core_splits(specs, space, cores)

    def plan_tiles(self, specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
        return tiling.plan_tiles(specs, budget)

    def emit_tile(self, kernel: KernelContext, frame: Frame) -> None:
        IndexedEmitter(kernel, frame).emit()

    def enclose(self, spec: OpSpec, operands: Sequence["Bounds"], grid: "Grid") -> "Bounds | None":
        from torch_spyre._inductor.verification.indexed import gather, scatter

        roles = LoopRoles.from_op_info(spec.op_info)
        scanned, column = (roles.symbols(role, spec.sizes) for role in ("scanned", "column"))
        if spec.op == GATHER:
            table, index = operands
            return gather(table, index, grid, scanned, column)
        reduce = next(name for name, op in SCATTERS.items() if op == spec.op)
        target, index, values = operands
        return scatter(reduce, target, index, values, grid, scanned, column)

    def index_strides(self, spec: OpSpec) -> Mapping[int, Sequence[int]]:
        """Return the host strides of the index along the dims outer, indexed and inner."""
        roles = LoopRoles.from_op_info(spec.op_info)
        indexed = "column" if spec.op == GATHER else "scanned"
        dims = (roles.symbols(role, spec.sizes) for role in ("outer", indexed, "inner"))
        index = spec.inputs[1]
        steps = [_host_step(index, symbols[-1]) if symbols else 0 for symbols in dims]
        return {_IN_SCRATCHPAD: steps}

    def check_op_info(self, spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
        """Raise `BundleError` unless each tensor is accessed along the dims of its role only."""
        is_gather = spec.op == GATHER
        scanned, column = (("outer", role, "inner") for role in ("scanned", "column"))
        expected = [scanned, column] if is_gather else [column, scanned, scanned]
        for arg, names in zip((*spec.inputs, spec.output), (*expected, column), strict=True):
            allowed = set().union(*(roles.names(role) for role in names))
            used = {s.name for c in arg.device_coordinates for s in sympy.sympify(c).free_symbols}
            if not used <= allowed:
                info.fail(f"must have {', '.join(sorted(used - allowed))} among {', '.join(names)}")


def _host_step(arg: TensorArg, symbol: Symbol) -> int:
    """Return how many elements on the host a step along a symbol moves."""
    step = 0
    for coordinate, stride in zip(arg.device_coordinates, arg.stride_map or (), strict=False):
        first, second = ({other: 0 for other in coordinate.free_symbols} for _ in range(2))
        second[symbol] = 1
        step += max(stride, 0) * int(coordinate.subs(second) - coordinate.subs(first))
    return step


register(IndexedOp())
