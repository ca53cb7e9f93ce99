"""A multi-loop op of two passes over the rows of a matrix, complete in one module.

The first pass reduces each row to its maximum, the second subtracts it and multiplies by a factor.
The maxima are a second result. Importing this module registers the op.
"""

import math

import torch
from torch._inductor.virtualized import V, ops
from xdsl.dialects import arith

from torch_spyre._inductor.layouts.sticks import StickCandidate
from torch_spyre._inductor.lowerings.memory import memory_loader
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import register
from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Value
from torch_spyre._inductor.to_ktir.types import F32

CENTERED, MAXIMA = "rowcentered", "rowmaxima"
KEY_TILE = 64

_library = torch.library.Library("spyre_test", "DEF")
_library.define("center_rows(Tensor x, float factor) -> (Tensor, Tensor)")
_library.impl(
    "center_rows",
    lambda x, factor: (torch.empty_like(x), x.new_empty(x.shape[:1])),
    "Meta",
)
OVERLOAD = torch.ops.spyre_test.center_rows.default


@register_lowering(OVERLOAD)
def _lowered(x, factor):
    load, (rows, columns) = memory_loader(x), x.get_size()

    def centered(index, reduced):
        row, column = index
        return load([row, column]), *maxima(index[:1], reduced)

    def maxima(index, reduced):
        return load([*index, *reduced]), ops.constant(factor, torch.float32)

    results = V.graph.current_node.meta["val"]
    return (
        multi_loop_reduction(CENTERED, centered, [rows, columns], [columns], x, results[0]),
        multi_loop_reduction(MAXIMA, maxima, [rows], [columns], x, results[1]),
    )


class RowCentering(MultiLoopOp):
    overload = OVERLOAD
    names = (CENTERED, MAXIMA)
    constants = ("factor",)
    roles = {"row": "c0", "column": "c1", "reduced": "r0"}

    def stick_candidates(self, op):
        (reduced,) = op.reduced
        if op.kind == MAXIMA:
            return [StickCandidate(None, (reduced,))]
        column = [name for name in op.loops if name != reduced][-1]
        return [StickCandidate(column, (column, reduced))]

    def can_merge(self, group, op):
        (first, *more_stores), maxima = group, op.value
        if more_stores or (first.value.op, maxima.op) != self.names:
            return False
        return (first.value.inputs[1:], first.value.constants) == (maxima.inputs, maxima.constants)

    def core_splits(self, specs, space, cores):
        (row,) = self._symbols(specs, space)["row"]
        return {row: max(n for n in range(1, cores + 1) if space.sizes[row] % n == 0)}

    def plan_tiles(self, specs, budget):
        space = IterationSpace.from_specs(specs)
        symbols = self._symbols(specs, space)
        (row,), columns = symbols["row"], (*symbols["column"], *symbols["reduced"])
        per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
        tile = {symbol: min(KEY_TILE, per_core[symbol]) for symbol in space.sizes}
        while math.prod((tile[row], KEY_TILE, 3, 4)) > budget:
            if tile[row] == 1:
                return None
            tile[row] = -(-tile[row] // 2)
        axes = tuple(Axis(symbol) for symbol in (row, *columns))
        return TilePlan(space, per_core, tile, axes, frozenset(columns))

    def emit_tile(self, kernel, frame):
        emitter, transfers, space = kernel.emitter, kernel.transfers, kernel.space
        symbols = self._symbols(kernel.specs, space)
        (row,) = symbols["row"]
        num_rows = frame.extents[row]

        def first_pass(tile, carried):
            loaded = transfers.load(space.accesses[kernel.specs[0].inputs[-1]], tile, {})
            return [emitter.reduce(loaded.ssa, carried[0], [1], arith.MaximumfOp)]

        lowest = emitter.splat(emitter.scalar(-math.inf, F32), (num_rows,))
        (maxima,) = emit_tile_loops(
            emitter, kernel.plan, symbols["reduced"], frame, [lowest], first_pass
        )

        def second_pass(tile, _):
            spec = kernel.specs[0]
            loaded = transfers.load(space.accesses[spec.inputs[0]], tile, {})
            below = emitter.broadcast(maxima, loaded.shape, [1])
            difference = emitter.add(arith.SubfOp(loaded.ssa, below))
            factor = emitter.splat(emitter.scalar(spec.constants["factor"], F32), loaded.shape)
            scaled = Value(emitter.add(arith.MulfOp(difference, factor)), loaded.axes)
            transfers.store(space.accesses[spec.output], tile, scaled, {}, is_partial=False)
            return ()

        for spec in kernel.specs:
            if spec.op == CENTERED:
                emit_tile_loops(emitter, kernel.plan, symbols["column"], frame, (), second_pass)
            else:
                value = Value(maxima, (Axis(row),))
                transfers.store(space.accesses[spec.output], frame, value, {}, is_partial=False)

    def check_op_info(self, spec, roles, info, dsc):
        if len(roles.names("reduced")) != 1:
            info["reduced"].fail("must be one symbol")

    def _symbols(self, specs, space):
        roles = LoopRoles.from_op_info(specs[0].op_info)
        return {role: roles.symbols(role, space.sizes) for role in self.roles}


register(RowCentering())
