"""Scans as the passes and the emitter see them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sympy import Symbol

from torch_spyre._inductor.layouts.graph import LayoutOp
from torch_spyre._inductor.layouts.sticks import StickCandidate
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.multi_loop.core_splits import splits_over_cores
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import register
from torch_spyre._inductor.multi_loop.roles import LoopRoles, symbols_of_roles
from torch_spyre._inductor.multi_loop.scan import tiling
from torch_spyre._inductor.multi_loop.scan.emission import ScanEmitter
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table.scan import SCANS
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre.ops.scan import OVERLOAD

if TYPE_CHECKING:
    from torch_spyre._inductor.verification.bounds import Bounds
    from torch_spyre._inductor.verification.positions import Grid


class ScanOp(MultiLoopOp):
    """Reads a tensor of three dims along the middle one, and writes one of the same sizes."""

    overload = OVERLOAD
    names = tuple(SCANS.values())
    constants = ()
    roles = {"outer": "c0", "column": "c1", "inner": "c2", "scanned": "r0"}

    def stick_candidates(self, op: LayoutOp) -> Sequence[StickCandidate]:
        """Return sticks along the inner dim if there is one, or along the scanned dim.

        Sticks along the outer dim would leave fewer slices of it for the cores.
        """
        return [
            StickCandidate(self.roles[written], (self.roles[read],))
            for written, read in (("inner", "inner"), ("column", "scanned"))
            if self.roles[written] in op.loops
        ]

    def can_merge(self, group: Sequence[LoopOp], op: LoopOp) -> bool:
        return False

    def core_splits(
        self, specs: Sequence[OpSpec], space: IterationSpace, cores: int
    ) -> Mapping[Symbol, int]:
        roles = symbols_of_roles(specs, space)
        return splits_over_cores((*roles["outer"], *roles["inner"]), space, cores)

    def plan_tiles(self, specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
        return tiling.plan_tiles(specs, budget)

    def emit_tile(self, kernel: KernelContext, frame: Frame) -> None:
        ScanEmitter(kernel, frame).emit()

    def enclose(self, spec: OpSpec, operands: Sequence["Bounds"], grid: "Grid") -> "Bounds | None":
        from torch_spyre._inductor.verification.scans import scan

        roles = LoopRoles.from_op_info(spec.op_info)
        combine = next(name for name, op in SCANS.items() if op == spec.op)
        scanned, column = (roles.symbols(role, spec.sizes) for role in ("scanned", "column"))
        return scan(combine, operands[0], grid, scanned, column)

    def check_op_info(self, spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
        """Raise `BundleError` unless the scanned dim is that of the result."""
        by_name = {symbol.name: size for symbol, size in spec.sizes.items()}
        lengths = []
        for role in ("column", "scanned"):
            length = 1
            for name in roles.names(role):
                length *= by_name.get(name, 1)
            lengths.append(length)
        if lengths[0] != lengths[1]:
            info["scanned"].fail(
                f"must be as long as the column of the result: {lengths[1]} and {lengths[0]}"
            )


register(ScanOp())
