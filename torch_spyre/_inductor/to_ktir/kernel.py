"""Builds a KTIR function for a list of OpSpecs over one iteration space."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from sympy import Symbol
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, Spec, UnimplementedOp, flat
from torch_spyre._inductor.tiling.tile_plan import TilePlan, is_matmul, plan_tiles, tile_budget
from torch_spyre._inductor.to_ktir.arity import check_operands
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.scope import TileScope
from torch_spyre._inductor.to_ktir.streaming import Stream
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre._inductor.to_ktir.transfers import Transfers
from torch_spyre._inductor.work_division import CoreMapping, core_mapping
from torch_spyre.cards import load_card
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects.ktdp.transfers import GetComputeTileIdOp
from torch_spyre.ktir.module import Module
from torch_spyre.logging_config import get_logger

codegen = get_logger("torch_spyre.inductor.codegen")


def build_module(name: str, specs: Sequence[Spec], budget: int | None = None) -> Module:
    """Return a module with the kernel of `build_kernel`."""
    return Module(build_kernel(name, specs, budget))


def build_kernel(name: str, specs: Sequence[Spec], budget: int | None = None) -> ModuleOp:
    """Return a kernel whose tiles use at most `budget` bytes of a core (None: `tile_budget`)."""
    if budget is None:
        budget = tile_budget(load_card())
    ops: list[OpSpec] = []
    for spec in flat(specs):
        if isinstance(spec, UnimplementedOp):
            raise UnsupportedError(f"{spec.op} in kernel {name}")
        check_operands(spec)
        ops.append(spec)
    plan = plan_tiles(ops, budget)
    if plan is None:
        raise UnsupportedError(
            f"kernel {name}, whose smallest tiles do not fit in {budget} bytes of scratchpad"
        )
    if codegen.isEnabledFor(logging.DEBUG):
        codegen.debug("%s: %s of at most %d bytes", name, plan, budget)
    function = _KernelBuilder(name, ops, plan).build()
    return ModuleOp([function])


class _KernelBuilder:
    """Emits the body of one kernel: the core's slices, loops over tiles, and their ops."""

    def __init__(self, name: str, specs: Sequence[OpSpec], plan: TilePlan) -> None:
        self.name, self.specs, self.plan = name, specs, plan
        self.space = plan.space
        self.mapping = _core_mapping(specs, plan)
        names = [parameter.name for parameter in kernel_parameters(specs)]
        self.entry = Block(arg_types=[IndexType()] * len(names))
        for name, argument in zip(names, self.entry.args, strict=True):
            argument.name_hint = name
        self.emitter = Emitter(self.entry)
        bases = dict(zip(names, self.entry.args, strict=True))
        index_tensors = {
            arg.name: self.space.accesses[arg]
            for spec in specs
            for arg in spec.index_args
            if arg.name is not None
        }
        transfers = Transfers(self.emitter, bases)
        self.context = KernelContext(
            self.name, specs, plan, self.mapping, self.emitter, transfers, index_tensors
        )

    def build(self) -> FuncOp:
        """Return the function; its grid has one dim, the cores."""
        core = GetComputeTileIdOp(1)
        self.entry.add_op(core)
        self.emitter.begin_body(core)
        self.slices = self._slices(core.ids[0])
        looped = [symbol for symbol in self.space.sizes if symbol not in self.plan.streamed]
        emit_tile_loops(self.emitter, self.plan, looped, self._core_frame(), (), self._emit_tile)
        self.entry.add_op(ReturnOp())
        arguments = [argument.type for argument in self.entry.args]
        function = FuncOp(self.name, (arguments, []), Region(self.entry))
        function.attributes["grid"] = ArrayAttr([IntegerAttr(self.space.cores, i64)])
        return function

    def _slices(self, core: SSAValue) -> dict[Symbol, SSAValue]:
        """Emit the index of this core's slice of each symbol that is split."""
        return {
            digit.symbol: self.emitter.indices.digit(
                core, digit.stride, digit.split, self.space.cores
            )
            for digit in self.mapping.digits
        }

    def _core_frame(self) -> Frame:
        """Return the frame of this core's slice of the iteration space."""
        origins = dict.fromkeys(self.space.sizes, Index(0))
        for symbol, slice in self.slices.items():
            per_core = self.plan.per_core[symbol]
            origins[symbol] = self.emitter.indices.times(Index(0, slice, 1), per_core)
        unsplit = [symbol for symbol in self.space.reduced if self.space.splits[symbol] == 1]
        return Frame(
            origins,
            dict(self.plan.per_core),
            {**self.plan.per_core, **{symbol: self.space.sizes[symbol] for symbol in unsplit}},
            self.plan.axes,
            self.plan.stick,
        )

    def _emit_tile(self, frame: Frame, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        multi_loop = multi_loop_op_of(self.specs)
        if multi_loop is not None:
            with self.context.at(self.specs[0]):
                multi_loop.emit_tile(self.context, frame)
        elif self.plan.streamed:
            self._emit_stream(TileScope(self.context, frame))
        else:
            scope = TileScope(self.context, frame)
            for spec in self.specs:
                scope.emit(spec)
        return ()

    def _emit_stream(self, scope: TileScope) -> None:
        stream = Stream(self.context, scope)
        stream.emit()
        if self.space.cross_core_reduction is None:
            stream.finish()
            return
        digit = self.mapping.digit_of[self.space.cross_core_reduction]
        stream.combine_cores(CoreGroups(digit, self.space.cores))
        # Only the first core of each group receives the combined accumulators.
        is_first = self.emitter.indices.is_zero(self.slices[self.space.cross_core_reduction])
        self.emitter.branch(is_first, stream.finish)


def _core_mapping(specs: Sequence[OpSpec], plan: TilePlan) -> CoreMapping:
    """Return the mapping of slices to cores, in the order of the matmul or of the first op."""
    leader = next((spec for spec in specs if is_matmul(spec)), specs[0])
    space = {symbol: (size, plan.space.splits[symbol]) for symbol, size in plan.space.sizes.items()}
    trailing = {symbol: entry for symbol, entry in space.items() if symbol not in leader.sizes}
    leading = {symbol: space[symbol] for symbol in leader.sizes}
    order = trailing | leading if is_matmul(leader) else leading | trailing
    return core_mapping(replace(leader, iteration_space=order))
