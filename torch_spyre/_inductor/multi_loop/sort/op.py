"""Sorts as the passes and the emitter see them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sympy import Symbol

from torch_spyre._inductor.layouts.graph import LayoutOp
from torch_spyre._inductor.layouts.sticks import StickCandidate
from torch_spyre._inductor.loop_ir import LoopOp, Reduction
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import register
from torch_spyre._inductor.multi_loop.roles import LoopRoles, symbols_of_roles
from torch_spyre._inductor.multi_loop.sort import tiling
from torch_spyre._inductor.multi_loop.sort.cross_core import CrossCoreSort
from torch_spyre._inductor.multi_loop.sort.emission import SortEmitter
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table.sort import CONSTANTS, INDICES, VALUES
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre.ops.sort import OVERLOAD

if TYPE_CHECKING:
    from torch_spyre._inductor.verification.bounds import Bounds
    from torch_spyre._inductor.verification.positions import Grid


class SortOp(MultiLoopOp):
    """Reads a tensor of three dims along the middle one, and perhaps the indices of its elements.

    Writes the first elements in their order, and their indices.
    """

    overload = OVERLOAD
    names = (VALUES, INDICES)
    constants = CONSTANTS
    roles = {"outer": "c0", "column": "c1", "inner": "c2", "sorted": "r0"}

    def stick_candidates(self, op: LayoutOp) -> Sequence[StickCandidate]:
        """Return sticks along the inner dim if there is one, or along the sorted dim."""
        pairs = [("inner", "inner"), ("column", "sorted")]
        return [
            StickCandidate(self.roles[written], (self.roles[read],) * len(op.reads))
            for written, read in pairs
            if self.roles[written] in op.loops
        ]

    def can_merge(self, group: Sequence[LoopOp], op: LoopOp) -> bool:
        """Return whether one of `group` and `op` are the elements and the indices of one sort."""
        first, second = group[0].value, op.value
        if len(group) != 1 or not isinstance(first, Reduction) or not isinstance(second, Reduction):
            return False
        if {first.op, second.op} != set(self.names):
            return False
        return (first.inputs, first.constants) == (second.inputs, second.constants)

    def core_splits(
        self, specs: Sequence[OpSpec], space: IterationSpace, cores: int
    ) -> Mapping[Symbol, int]:
        return tiling.core_splits(specs, space, cores)

    def plan_tiles(self, specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
        return tiling.plan_tiles(specs, budget)

    def emit_tile(self, kernel: KernelContext, frame: Frame) -> None:
        roles = symbols_of_roles(kernel.specs, kernel.space)
        if tiling.num_row_blocks(kernel.space, roles) > 1:
            CrossCoreSort(kernel, frame).emit()
        else:
            SortEmitter(kernel, frame).emit()

    def enclose(self, spec: OpSpec, operands: Sequence["Bounds"], grid: "Grid") -> "Bounds":
        from torch_spyre._inductor.verification.sorts import SortedRows

        return SortedRows(spec, LoopRoles.from_op_info(spec.op_info), grid).compute(operands)

    def check_op_info(self, spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
        """Raise `BundleError` for a result longer than a row, and for invalid constants."""
        by_name = {symbol.name: size for symbol, size in spec.sizes.items()}
        lengths = []
        for role in ("column", "sorted"):
            length = 1
            for name in roles.names(role):
                length *= by_name.get(name, 1)
            lengths.append(length)
        if lengths[0] > lengths[1]:
            info["column"].fail(f"must not be longer than a row, {lengths[0]} and {lengths[1]}")
        if len(spec.inputs) not in (1, 2):
            dsc.fail(f"must read keys and perhaps indices, not {len(spec.inputs)} tensors")
        runs = spec.constants["runs"]
        if not runs >= 1 or runs % 1:
            dsc.fail(f"must have runs of a positive number of elements, not {runs}")


register(SortOp())
