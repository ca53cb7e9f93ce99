"""Emits reductions and matmuls that stream their reduced symbols, one tile at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.tile_plan import is_matmul
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups, reduce_across_cores
from torch_spyre._inductor.to_ktir.matmul import Matmul
from torch_spyre._inductor.to_ktir.reductions import Reducer
from torch_spyre._inductor.to_ktir.scope import TileScope
from torch_spyre._inductor.to_ktir.tile_loops import emit_tile_loops
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import element_type


class _Accumulation(ABC):
    """One reducing op of a stream: initial accumulators, an update per tile, a result."""

    initial: Sequence[SSAValue]

    def __init__(self, context: KernelContext, spec: OpSpec, outer: TileScope) -> None:
        self.context, self.spec, self.outer = context, spec, outer
        self.results: Sequence[SSAValue] = ()

    @abstractmethod
    def update(self, accumulators: Sequence[SSAValue], scope: TileScope) -> list[SSAValue]:
        """Emit the accumulators after one more tile."""

    @abstractmethod
    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Return the op that combines two accumulators."""

    @abstractmethod
    def finish(self) -> None:
        """Emit the result from the accumulators in `results`."""

    def combine_cores(self, groups: CoreGroups) -> None:
        """Combine the accumulators of the cores of each group."""
        (partial,), (identity,) = self.results, self.initial
        emitter = self.context.emitter
        self.results = [reduce_across_cores(emitter, groups, partial, identity, self.combine)]


class _MatmulAccumulation(_Accumulation):
    def __init__(self, context: KernelContext, spec: OpSpec, outer: TileScope) -> None:
        super().__init__(context, spec, outer)
        self.matmul = Matmul(context.emitter, spec)
        element = element_type(spec.inputs[-1].device_dtype)
        self.initial = [self.matmul.initial_accumulator(outer.frame, element)]

    def update(self, accumulators: Sequence[SSAValue], scope: TileScope) -> list[SSAValue]:
        left, right = self.spec.inputs
        factors = (
            scope.operand_along(left, self.matmul.left_symbols),
            scope.operand_along(right, self.matmul.right_symbols),
        )
        return [self.matmul.update(*factors, accumulators[0], scope.frame)]

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        return self.matmul.combine(left, right)

    def finish(self) -> None:
        self.outer.set_result(self.spec, self.matmul.result(self.results[0], self.outer.frame))


class _ReductionAccumulation(_Accumulation):
    def __init__(self, context: KernelContext, spec: OpSpec, outer: TileScope) -> None:
        super().__init__(context, spec, outer)
        self.axes = outer.frame.axes_of(context.space.accesses[spec.output].symbols)
        self.reducer = Reducer(context.emitter, spec, outer.frame.shape(self.axes))
        element = element_type(spec.inputs[-1].device_dtype)
        self.initial = self.reducer.begin(self.reducer.accumulator(element, streamed=True))

    def update(self, accumulators: Sequence[SSAValue], scope: TileScope) -> list[SSAValue]:
        return scope.accumulate(self.spec, self.reducer, accumulators)

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        return self.reducer.combine(left, right)

    def finish(self) -> None:
        result = element_type(self.spec.output.device_dtype)
        self.outer.set_result(self.spec, Value(self.reducer.end(self.results, result), self.axes))


class Stream:
    """The specs of a kernel that loop over its streamed symbols, and those before and after."""

    def __init__(self, context: KernelContext, outer: TileScope) -> None:
        self.context, self.outer = context, outer
        specs, streamed = context.specs, context.plan.streamed
        self.inside = [spec for spec in specs if set(spec.sizes) & streamed]
        self.before = self._independent_specs()
        self.after = [spec for spec in specs if spec not in self.before and spec not in self.inside]
        self.accumulations: list[_Accumulation] = []

    def emit(self) -> None:
        """Emit the specs before the stream, and the loops over all its tiles."""
        for spec in self.before:
            self.outer.emit(spec)
        for spec in self.inside:
            self.outer.preload(spec)
        self.accumulations = [self._accumulation(spec) for spec in self.inside if spec.is_reduction]
        initial = [value for accumulation in self.accumulations for value in accumulation.initial]
        plan = self.context.plan
        symbols = [symbol for symbol in plan.space.sizes if symbol in plan.streamed]
        values = emit_tile_loops(
            self.context.emitter, plan, symbols, self.outer.frame, initial, self._emit_tile
        )
        for accumulation, results in zip(self.accumulations, self._split(values), strict=True):
            accumulation.results = results

    def combine_cores(self, groups: CoreGroups) -> None:
        """Combine the accumulators of the cores that share a result."""
        for accumulation in self.accumulations:
            with self.context.at(accumulation.spec):
                accumulation.combine_cores(groups)

    def finish(self) -> None:
        """Emit the results of the stream, and the specs after it."""
        for accumulation in self.accumulations:
            with self.context.at(accumulation.spec):
                accumulation.finish()
        for spec in self.after:
            self.outer.emit(spec)

    def _independent_specs(self) -> list[OpSpec]:
        """Return the specs outside the stream that do not depend on its results."""
        results = {spec.output.name for spec in self.inside if spec.output.name}
        independent: list[OpSpec] = []
        for spec in self.context.specs:
            if spec in self.inside:
                continue
            if {arg.name for arg in spec.inputs if arg.in_scratchpad} & results:
                if spec.output.name:
                    results.add(spec.output.name)
                continue
            independent.append(spec)
        return independent

    def _accumulation(self, spec: OpSpec) -> _Accumulation:
        kind = _MatmulAccumulation if is_matmul(spec) else _ReductionAccumulation
        with self.context.at(spec):
            return kind(self.context, spec, self.outer)

    def _emit_tile(self, frame: Frame, values: Sequence[SSAValue]) -> list[SSAValue]:
        scope = TileScope(self.context, frame, self.outer)
        accumulators = self._split(values)
        specs = [accumulation.spec for accumulation in self.accumulations]
        positions = {id(spec): position for position, spec in enumerate(specs)}
        for spec in self.inside:
            if id(spec) in positions:
                position = positions[id(spec)]
                accumulation = self.accumulations[position]
                with self.context.at(spec):
                    accumulators[position] = accumulation.update(accumulators[position], scope)
            else:
                scope.emit(spec)
        return [value for group in accumulators for value in group]

    def _split(self, values: Sequence[SSAValue]) -> list[list[SSAValue]]:
        """Return the values of each accumulation."""
        groups: list[list[SSAValue]] = []
        start = 0
        for accumulation in self.accumulations:
            end = start + len(accumulation.initial)
            groups.append(list(values[start:end]))
            start = end
        return groups
