"""A KTIR function for a list of OpSpecs over one iteration space."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sympy import Symbol
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.op_spec import (
    OpSpec,
    Spec,
    TensorArg,
    UnimplementedOp,
    flat,
    index_names,
)
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.op_table import INDEX, POINTWISE_OPS, REDUCTION_OPS, WHERE
from torch_spyre._inductor.to_ktir.arity import OPERAND, check_operands
from torch_spyre._inductor.to_ktir.attention import Attention
from torch_spyre._inductor.to_ktir.attention_tiles import is_attention, plan_attention
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.coordinates import emit_coordinate
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.plan import TilePlan, is_matmul, plan_tiles, tile_budget
from torch_spyre._inductor.to_ktir.pointwise import emit_pointwise
from torch_spyre._inductor.to_ktir.products import Product
from torch_spyre._inductor.to_ktir.reductions import Reducer
from torch_spyre._inductor.to_ktir.sharing import Sharing, combined
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.transfers import Transfers
from torch_spyre._inductor.to_ktir.types import element_type
from torch_spyre._inductor.work_division import CoreMapping, core_mapping
from torch_spyre.cards import load_card
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects.ktdp.transfers import GetComputeTileIdOp
from torch_spyre.ktir.module import Module


def build_module(name: str, specs: Sequence[Spec], budget: int | None = None) -> Module:
    return Module(build_kernel(name, specs, budget))


def build_kernel(name: str, specs: Sequence[Spec], budget: int | None = None) -> ModuleOp:
    """Build a kernel whose tiles take at most `budget` bytes of a core (None: `tile_budget`)."""
    if budget is None:
        budget = tile_budget(load_card())
    ops: list[OpSpec] = []
    for spec in flat(specs):
        if isinstance(spec, UnimplementedOp):
            raise UnsupportedError(f"{spec.op} in kernel {name}")
        check_operands(spec)
        ops.append(spec)
    plan = plan_attention(ops, budget) if is_attention(ops) else plan_tiles(ops, budget)
    if plan is None:
        raise UnsupportedError(f"kernel {name}: its tiles do not fit the scratchpad")
    function = _Kernel(name, ops, plan).build()
    return ModuleOp([function])


class _Kernel:
    def __init__(self, name: str, specs: Sequence[OpSpec], plan: TilePlan) -> None:
        self.name, self.specs, self.plan = name, specs, plan
        self.space = plan.space
        self.mapping = _mapping(specs, plan)
        names = [parameter.name for parameter in kernel_parameters(specs)]
        self.entry = Block(arg_types=[IndexType()] * len(names))
        for name, argument in zip(names, self.entry.args, strict=True):
            argument.name_hint = name
        self.emitter = Emitter(self.entry)
        bases = dict(zip(names, self.entry.args, strict=True))
        self.transfers = Transfers(self.emitter, bases)
        self.index_tensors = {
            arg.name: self.space.accesses[arg]
            for spec in specs
            for arg in spec.index_args
            if arg.name is not None
        }

    def build(self) -> FuncOp:
        core = GetComputeTileIdOp(1)
        self.entry.add_op(core)
        self.emitter.begin_body(core)
        self.slices = self._slices(core.ids[0])
        whole = [symbol for symbol in self.space.reduced if self.space.splits[symbol] == 1]
        frame = Frame(
            self._core_origins(),
            dict(self.plan.per_core),
            {**self.plan.per_core, **{each: self.space.sizes[each] for each in whole}},
            self.plan.axes,
            self.plan.stick,
        )
        looped = [symbol for symbol in self.space.sizes if symbol not in self.plan.streamed]
        self._nest(looped, frame, self._tile)
        self.entry.add_op(ReturnOp())
        arguments = [argument.type for argument in self.entry.args]
        function = FuncOp(self.name, (arguments, []), Region(self.entry))
        function.attributes["grid"] = ArrayAttr([IntegerAttr(self.space.cores, i64)])
        return function

    def _slices(self, core: SSAValue) -> dict[Symbol, SSAValue]:
        """Which slice of each symbol this core has, for symbols that are split."""
        return {
            digit.symbol: self.emitter.indices.digit(
                core, digit.stride, digit.split, self.space.cores
            )
            for digit in self.mapping.digits
        }

    def _core_origins(self) -> dict[Symbol, Index]:
        """Where this core's part of every symbol begins."""
        origins = dict.fromkeys(self.space.sizes, Index(0))
        for symbol, slice in self.slices.items():
            share = self.plan.per_core[symbol]
            origins[symbol] = self.emitter.indices.times(Index(0, slice, 1), share)
        return origins

    def _nest(self, symbols: Sequence[Symbol], frame: Frame, body: Callable[[Frame], None]) -> None:
        """Loops over the tiles of these symbols, outermost first."""
        if not symbols:
            body(frame)
            return
        symbol, *inner = symbols
        for trips, start, extent, valid in self._pieces(symbol):

            def visit(
                here: Index,
                _: Sequence[SSAValue],
                start: int = start,
                extent: int = extent,
                valid: int = valid,
            ) -> Sequence[SSAValue]:
                self._nest(inner, self._moved(frame, symbol, here, start, extent, valid), body)
                return ()

            self.emitter.loop(trips, self.plan.tile[symbol], (), visit)

    def _moved(
        self, frame: Frame, symbol: Symbol, here: Index, start: int, extent: int, valid: int
    ) -> Frame:
        arithmetic = self.emitter.indices
        origin = arithmetic.plus(arithmetic.plus(frame.origins[symbol], here), Index(start))
        return replace(
            frame,
            origins={**frame.origins, symbol: origin},
            extents={**frame.extents, symbol: extent},
            valid={**frame.valid, symbol: valid},
        )

    def _pieces(self, symbol: Symbol) -> list[tuple[int, int, int, int]]:
        """(trips, start, extent, valid) of the tiles of a symbol: equal ones, then what is left."""
        tile = self.plan.tile[symbol]
        folded = symbol in self.space.reduced and self.space.splits[symbol] == 1
        whole = self.space.sizes[symbol] if folded else self.plan.per_core[symbol]
        trips, rest = divmod(whole, tile)
        pieces = [(trips, 0, tile, tile)] if trips else []
        if rest:
            extent = rest
            if symbol in self.plan.padded:
                extent = min(tile, self.plan.per_core[symbol] - trips * tile)
            pieces.append((1, trips * tile, extent, rest))
        return pieces

    def _tile(self, frame: Frame) -> None:
        if is_attention(self.specs):
            Attention(self.emitter, self.transfers, self.specs, self.plan).tile(frame)
            return
        scope = _Scope(self, frame)
        if not self.plan.streamed:
            for spec in self.specs:
                scope.run(spec)
            return
        inside = [spec for spec in self.specs if set(spec.sizes) & self.plan.streamed]
        before = self._before(inside)
        for spec in before:
            scope.run(spec)
        folds = self._stream(inside, scope)

        def after() -> None:
            for fold in folds:
                fold.finish(scope)
            for spec in self.specs:
                if spec not in before and spec not in inside:
                    scope.run(spec)

        if self.space.shared is None:
            after()
            return
        sharing = Sharing(self.mapping.digit_of[self.space.shared], self.space.cores)
        for fold in folds:
            fold.combine(sharing)
        # The others of a group have given away what they know.
        self.emitter.branch(self.emitter.indices.is_zero(self.slices[self.space.shared]), after)

    def _before(self, inside: Sequence[OpSpec]) -> list[OpSpec]:
        """Ops outside the stream that do not wait for its results."""
        results = {spec.output.name for spec in inside if spec.output.name}
        found: list[OpSpec] = []
        for spec in self.specs:
            if spec in inside:
                continue
            if {arg.name for arg in spec.inputs if arg.in_scratchpad} & results:
                if spec.output.name:
                    results.add(spec.output.name)
                continue
            found.append(spec)
        return found

    def _stream(self, inside: Sequence[OpSpec], outer: "_Scope") -> list["_Fold"]:
        """Runs ops on all tiles of the streamed symbols; the folds then hold what they found."""
        for spec in inside:
            outer.preload(spec)
        folding = [spec for spec in inside if spec.is_reduction]
        folds = [_Fold(self, spec, outer) for spec in folding]
        counts = [len(fold.state) for fold in folds]
        state = [value for fold in folds for value in fold.state]

        def visit(
            symbols: Sequence[Symbol], frame: Frame, so_far: Sequence[SSAValue]
        ) -> list[SSAValue]:
            if not symbols:
                return self._step(inside, folds, counts, _Scope(self, frame, outer), so_far)
            symbol, *inner = symbols
            state = list(so_far)
            for trips, start, extent, valid in self._pieces(symbol):

                def body(
                    here: Index,
                    carried: Sequence[SSAValue],
                    start: int = start,
                    extent: int = extent,
                    valid: int = valid,
                ) -> Sequence[SSAValue]:
                    return visit(
                        inner, self._moved(frame, symbol, here, start, extent, valid), carried
                    )

                state = self.emitter.loop(trips, self.plan.tile[symbol], state, body)
            return state

        streamed = [symbol for symbol in self.space.sizes if symbol in self.plan.streamed]
        state = visit(streamed, outer.frame, state)
        for fold, count in zip(folds, counts, strict=True):
            fold.found, state = state[:count], state[count:]
        return folds

    def _step(
        self,
        inside: Sequence[OpSpec],
        folds: Sequence["_Fold"],
        counts: Sequence[int],
        scope: "_Scope",
        so_far: Sequence[SSAValue],
    ) -> list[SSAValue]:
        states: dict[int, list[SSAValue]] = {}
        position = 0
        for number, count in enumerate(counts):
            states[number] = list(so_far[position : position + count])
            position += count
        by_spec = {id(fold.spec): number for number, fold in enumerate(folds)}
        for spec in inside:
            if id(spec) in by_spec:
                number = by_spec[id(spec)]
                states[number] = folds[number].step(states[number], scope)
            else:
                scope.run(spec)
        return [value for number in range(len(folds)) for value in states[number]]


class _Fold:
    """One op that folds, over all tiles that stream past."""

    def __init__(self, kernel: _Kernel, spec: OpSpec, outer: "_Scope") -> None:
        self.spec, self.emitter = spec, kernel.emitter
        self.found: list[SSAValue] = []
        element = element_type(spec.inputs[-1].device_dtype)
        if is_matmul(spec):
            self.product = Product(kernel.emitter, spec)
            self.state = [self.product.begin(outer.frame, element)]
            return
        axes = outer.frame.axes_of(kernel.space.accesses[spec.output].symbols)
        self.reducer = Reducer(kernel.emitter, spec, outer.frame.shape(axes))
        self.axes = axes
        self.state = self.reducer.begin(self.reducer.accumulator(element, streamed=True))

    def step(self, so_far: Sequence[SSAValue], scope: "_Scope") -> list[SSAValue]:
        if is_matmul(self.spec):
            left, right = self.spec.inputs
            factors = (
                scope.along(left, self.product.of_left),
                scope.along(right, self.product.of_right),
            )
            return [self.product.step(*factors, so_far[0], scope.frame)]
        return scope.fold(self.spec, self.reducer, so_far)

    def combine(self, sharing: Sharing) -> None:
        """Puts together what the cores of a group have found."""
        combine = self.product.combine if is_matmul(self.spec) else self.reducer.combine
        (partial,), (start,) = self.found, self.state
        self.found = [combined(self.emitter, sharing, partial, start, combine)]

    def finish(self, outer: "_Scope") -> None:
        if is_matmul(self.spec):
            outer.put(self.spec, self.product.end(self.found[0], outer.frame))
            return
        result = element_type(self.spec.output.device_dtype)
        outer.put(self.spec, Value(self.reducer.end(self.found, result), self.axes))


class _Scope:
    """The values of one tile: loaded once, computed in order."""

    def __init__(self, kernel: _Kernel, frame: Frame, outer: "_Scope | None" = None) -> None:
        self.kernel, self.frame, self.outer = kernel, frame, outer
        self.emitter, self.transfers = kernel.emitter, kernel.transfers
        self.values: dict[str, Value] = dict(outer.values) if outer else {}
        self.loaded: dict[TensorArg, Value] = {}

    def run(self, spec: OpSpec) -> None:
        if spec.op == INDEX:
            self.put(spec, emit_coordinate(self.emitter, spec, self.frame))
        elif spec.op in POINTWISE_OPS:
            self._pointwise(spec)
        elif spec.op in REDUCTION_OPS:
            self._reduction(spec)
        else:
            raise UnsupportedError(f"{spec.op} in kernel {self.kernel.name}")

    def put(self, spec: OpSpec, value: Value) -> None:
        """Keeps a result in the scratchpad, or stores it."""
        arg = spec.output
        if arg.in_scratchpad:
            assert arg.name is not None
            self.values[arg.name] = value
            return
        value = self._converted(value, arg)
        partial = bool(spec.op_info.get("partial"))
        access = self.kernel.space.accesses[arg]
        indices = self.kernel.index_tensors
        self.transfers.store(access, self.frame, value, indices, partial=partial)

    def preload(self, spec: OpSpec) -> None:
        """Loads what an op reads alike on all tiles that stream past."""
        for arg in spec.operands:
            if not arg.in_scratchpad and self._stays(arg):
                self._operand(arg)

    def _stays(self, arg: TensorArg) -> bool:
        """Is it the same for all tiles that stream past, and so are the indices it is read at?"""
        indices = [self.kernel.index_tensors[name] for name in index_names(arg)]
        accesses = [self.kernel.space.accesses[arg], *indices]
        return not any(each.symbols & self.kernel.plan.streamed for each in accesses)

    def along(self, arg: TensorArg, symbols: frozenset[Symbol]) -> Value:
        """An input with an axis for each of these symbols."""
        return self.transfers.spread(self._operand(arg), self.frame.axes_of(symbols), self.frame)

    def fold(self, spec: OpSpec, reducer: Reducer, so_far: Sequence[SSAValue]) -> list[SSAValue]:
        value = self.along(spec.inputs[-1], frozenset(spec.iteration_space))
        kept = self.kernel.space.accesses[spec.output].symbols
        valid = tuple(self.frame.valid[axis.symbol] for axis in value.axes)
        sizes = tuple(
            size if axis.symbol in kept else min(size, limit)
            for axis, size, limit in zip(value.axes, value.shape, valid, strict=True)
        )
        raw = self.emitter.slice(value.ssa, (0,) * len(sizes), sizes)
        dims = [place for place, axis in enumerate(value.axes) if axis.symbol not in kept]
        folded = [value.axes[place].symbol for place in dims]
        strides = self._numbering(spec, folded)
        origins = [self.frame.origins[symbol] for symbol in folded]
        return reducer.step(raw, so_far, dims, origins, strides)

    def _numbering(self, spec: OpSpec, folded: Sequence[Symbol]) -> list[int]:
        """Strides that number the folded elements in the order of the op's own symbols."""
        order = [symbol for symbol in spec.iteration_space if symbol in folded]
        strides, stride = {}, 1
        for symbol in reversed(order):
            strides[symbol] = stride
            stride *= spec.sizes[symbol]
        return [strides[symbol] for symbol in folded]

    def _reduction(self, spec: OpSpec) -> None:
        axes = self.frame.axes_of(self.kernel.space.accesses[spec.output].symbols)
        reducer = Reducer(self.emitter, spec, self.frame.shape(axes))
        element = self._operand(spec.inputs[-1]).element
        state = reducer.begin(reducer.accumulator(element, streamed=False))
        state = self.fold(spec, reducer, state)
        result = element_type(spec.output.device_dtype)
        self.put(spec, Value(reducer.end(state, result), axes))

    def _pointwise(self, spec: OpSpec) -> None:
        operands = self._operands(spec)
        present = {axis for value in operands for axis in value.axes}
        axes = tuple(axis for axis in self.frame.axes if axis in present)
        same = [self.transfers.spread(value, axes, self.frame).ssa for value in operands]
        result = element_type(spec.output.device_dtype)
        raw = emit_pointwise(self.emitter, spec.op, same, spec.constants, result)
        self.put(spec, Value(raw, axes))

    def _operands(self, spec: OpSpec) -> list[Value]:
        """Tensors and constants in the order of the op's operands."""
        inputs = spec.operands
        tensors, constants = iter(inputs), spec.constants
        # A constant is of the type of what it meets; of what comes out, if that is a choice.
        chooses = spec.op == WHERE or not inputs
        format = spec.output.device_dtype if chooses else inputs[0].device_dtype
        count = len(inputs) + sum(name.startswith(OPERAND) for name in constants)
        operands: list[Value] = []
        for position in range(count):
            name = f"{OPERAND}{position}"
            if name in constants:
                scalar = self.emitter.scalar(constants[name], element_type(format))
                operands.append(Value(scalar, ()))
            else:
                operands.append(self._operand(next(tensors)))
        return operands

    def _operand(self, arg: TensorArg) -> Value:
        if arg.in_scratchpad:
            assert arg.name is not None
            if arg.name not in self.values:
                raise InvalidOpSpecError(
                    f"{arg.name} is read from the scratchpad, and no op before left it there"
                )
            return self.values[arg.name]
        if arg not in self.loaded:
            if self.outer is not None and self._stays(arg):
                return self.outer._operand(arg)
            access = self.kernel.space.accesses[arg]
            self.loaded[arg] = self.transfers.load(access, self.frame, self.kernel.index_tensors)
        return self.loaded[arg]

    def _converted(self, value: Value, arg: TensorArg) -> Value:
        element = element_type(arg.device_dtype)
        if value.is_scalar:
            value = self.transfers.spread(value, self.frame.axes[-1:], self.frame)
        return Value(converted(self.emitter, value.ssa, element), value.axes)


def _mapping(specs: Sequence[OpSpec], plan: TilePlan) -> CoreMapping:
    """That of the product, if there is one, else of an op with all symbols."""
    leader = next((spec for spec in specs if is_matmul(spec)), specs[0])
    space = {symbol: (size, plan.space.splits[symbol]) for symbol, size in plan.space.sizes.items()}
    others = {symbol: each for symbol, each in space.items() if symbol not in leader.sizes}
    own = {symbol: space[symbol] for symbol in leader.sizes}
    order = others | own if is_matmul(leader) else own | others
    return core_mapping(replace(leader, iteration_space=order))
