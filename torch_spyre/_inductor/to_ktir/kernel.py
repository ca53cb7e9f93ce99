"""Builds a KTIR function for a list of OpSpecs over one iteration space."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from torch_spyre._inductor.dynamic_sizes import DynamicSpecs
from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, Spec, UnimplementedOp, flat
from torch_spyre._inductor.tiling.tile_plan import TilePlan, is_matmul, plan_tiles, tile_budget
from torch_spyre._inductor.to_ktir.arity import check_operands
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.extents import Extent, ceil_divided
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.launch_sizes import LaunchSizes, argument_type
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


def build_module(
    name: str,
    specs: Sequence[Spec],
    budget: int | None = None,
    dynamic: DynamicSpecs | None = None,
) -> Module:
    """Return a module with the kernel of `build_kernel`."""
    return Module(build_kernel(name, specs, budget, dynamic))


def build_kernel(
    name: str,
    specs: Sequence[Spec],
    budget: int | None = None,
    dynamic: DynamicSpecs | None = None,
) -> ModuleOp:
    """Return a kernel whose tiles use at most `budget` bytes of a core (None: `tile_budget`).

    With `dynamic`, whose largest sizes `specs` are for, sizes are arguments after the tensors.
    """
    if budget is None:
        budget = tile_budget(load_card())
    ops: list[OpSpec] = []
    for spec in flat(specs):
        if isinstance(spec, UnimplementedOp):
            raise UnsupportedError(f"{spec.op} in kernel {name}")
        check_operands(spec)
        ops.append(spec)
    loops = frozenset() if dynamic is None else dynamic.loops
    plan = plan_tiles(ops, budget, loops)
    if plan is None:
        raise UnsupportedError(
            f"kernel {name}, whose smallest tiles do not fit in {budget} bytes of scratchpad"
        )
    if codegen.isEnabledFor(logging.DEBUG):
        codegen.debug("%s: %s of at most %d bytes", name, plan, budget)
    function = _KernelBuilder(name, ops, plan, dynamic).build()
    return ModuleOp([function])


class _KernelBuilder:
    """Emits the body of one kernel: the core's slices, loops over tiles, and their ops."""

    def __init__(
        self,
        name: str,
        specs: Sequence[OpSpec],
        plan: TilePlan,
        dynamic: DynamicSpecs | None,
    ) -> None:
        self.name, self.specs, self.plan = name, specs, plan
        self.space = plan.space
        self.mapping = _core_mapping(specs, plan)
        names = [parameter.name for parameter in kernel_parameters(specs)]
        ranges = {} if dynamic is None else dynamic.ranges
        size_types = [argument_type(limits) for limits in ranges.values()]
        self.entry = Block(arg_types=[*([IndexType()] * len(names)), *size_types])
        size_names = [symbol.name for symbol in ranges]
        for name, argument in zip([*names, *size_names], self.entry.args, strict=True):
            argument.name_hint = name
        self.emitter = Emitter(self.entry)
        bases = dict(zip(names, self.entry.args[: len(names)], strict=True))
        self.launch_sizes = None
        if dynamic is not None:
            arguments = self.entry.args[len(names) :]
            self.launch_sizes = LaunchSizes(self.emitter.indices, dynamic, arguments)
        index_tensors = {
            arg.name: self.space.accesses[arg]
            for spec in specs
            for arg in spec.index_args
            if arg.name is not None
        }
        transfers = Transfers(self.emitter, bases, self.launch_sizes)
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
        frame = Frame(
            origins,
            dict(self.plan.per_core),
            {**self.plan.per_core, **{symbol: self.space.sizes[symbol] for symbol in unsplit}},
            self.plan.axes,
            self.plan.stick,
        )
        loops = {} if self.launch_sizes is None else self.launch_sizes.loops
        for symbol, size in loops.items():
            frame = self._with_slice_known_at_launch(frame, symbol, size)
        return frame

    def _with_slice_known_at_launch(self, frame: Frame, symbol: Symbol, size: Extent) -> Frame:
        """Emit this core's slice of a symbol whose size is known at launch.

        Slices are whole sticks, all of one size but the last ones, which are shorter or empty.
        """
        granule, split = self.space.granule(symbol), self.space.splits[symbol]
        units = ceil_divided(size, granule)
        assert isinstance(units, Extent)
        origin, valid = Index(0), size
        if split > 1:
            share = ceil_divided(units, split)
            assert isinstance(share, Extent)
            product = arith.MuliOp(self.slices[symbol], share.value)
            start = self.emitter.add(product)
            units = units.after(start).at_most(share)
            origin = self.emitter.indices.times(Index(0, start, 1), granule)
            valid = size.after(self.emitter.indices.value(origin)).at_most(units * granule)
        extent = units * granule if symbol in self.plan.padded else valid
        return replace(
            frame,
            origins={**frame.origins, symbol: origin},
            extents={**frame.extents, symbol: extent},
            valid={**frame.valid, symbol: valid},
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
