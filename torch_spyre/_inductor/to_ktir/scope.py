"""Emits ops on the values of one tile."""

from collections.abc import Sequence

from sympy import Symbol
from xdsl.ir import SSAValue

from torch_spyre._inductor.op_spec import OpSpec, TensorArg, index_names
from torch_spyre._inductor.op_table import INDEX, POINTWISE_OPS, REDUCTION_OPS, WHERE
from torch_spyre._inductor.to_ktir.arity import OPERAND
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.coordinates import emit_coordinate
from torch_spyre._inductor.to_ktir.extents import smaller
from torch_spyre._inductor.to_ktir.pointwise import emit_pointwise
from torch_spyre._inductor.to_ktir.reductions import Reducer
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import element_type
from torch_spyre.errors import InvalidOpSpecError, UnsupportedError


class TileScope:
    """The values of one tile. Tensors are loaded once, on their first use."""

    def __init__(
        self, context: KernelContext, frame: Frame, outer: "TileScope | None" = None
    ) -> None:
        self.context, self.frame, self.outer = context, frame, outer
        self.emitter, self.transfers = context.emitter, context.transfers
        # Values in the scratchpad, by name.
        self.values: dict[str, Value] = dict(outer.values) if outer else {}
        self.loaded: dict[TensorArg, Value] = {}

    def emit(self, spec: OpSpec) -> None:
        """Emit an op on this tile."""
        with self.context.at(spec):
            self._emit(spec)

    def _emit(self, spec: OpSpec) -> None:
        if spec.op == INDEX:
            self.set_result(spec, emit_coordinate(self.emitter, spec, self.frame))
        elif spec.op in POINTWISE_OPS:
            self._pointwise(spec)
        elif spec.op in REDUCTION_OPS:
            self._reduction(spec)
        else:
            raise UnsupportedError(f"{spec.op} in kernel {self.context.name}")

    def set_result(self, spec: OpSpec, value: Value) -> None:
        """Record a result that stays in the scratchpad, or store it to memory."""
        arg = spec.output
        if arg.in_scratchpad:
            assert arg.name is not None
            self.values[arg.name] = value
            return
        value = self._converted(value, arg)
        is_partial = bool(spec.op_info.get("partial"))
        access = self.context.space.accesses[arg]
        indices = self.context.index_tensors
        self.transfers.store(access, self.frame, value, indices, is_partial=is_partial)

    def preload(self, spec: OpSpec) -> None:
        """Load the operands of an op that are the same for all tiles of a stream."""
        with self.context.at(spec):
            for arg in spec.operands:
                if not arg.in_scratchpad and self._is_invariant(arg):
                    self._operand(arg)

    def _is_invariant(self, arg: TensorArg) -> bool:
        """Return whether a tensor, and the indices it is read at, are the same for all tiles."""
        indices = [self.context.index_tensors[name] for name in index_names(arg)]
        accesses = [self.context.space.accesses[arg], *indices]
        return not any(access.symbols & self.context.plan.streamed for access in accesses)

    def operand_along(self, arg: TensorArg, symbols: frozenset[Symbol]) -> Value:
        """Return an operand with an axis for each of these symbols."""
        return self.transfers.broadcast_to(
            self._operand(arg), self.frame.axes_of(symbols), self.frame
        )

    def accumulate(
        self, spec: OpSpec, reducer: Reducer, accumulators: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Emit the accumulators of a reduction after this tile, without its padding."""
        value = self.operand_along(spec.inputs[-1], frozenset(spec.iteration_space))
        output_symbols = self.context.space.accesses[spec.output].symbols
        valid = tuple(self.frame.valid[axis.symbol] for axis in value.axes)
        sizes = tuple(
            size if axis.symbol in output_symbols else smaller(size, limit)
            for axis, size, limit in zip(value.axes, value.shape, valid, strict=True)
        )
        raw = self.emitter.slice(value.ssa, (0,) * len(sizes), sizes)
        dims = [dim for dim, axis in enumerate(value.axes) if axis.symbol not in output_symbols]
        reduced = [value.axes[dim].symbol for dim in dims]
        strides = self._element_strides(spec, reduced)
        origins = [self.frame.origins[symbol] for symbol in reduced]
        return reducer.step(raw, accumulators, dims, origins, strides)

    def _element_strides(self, spec: OpSpec, reduced: Sequence[Symbol]) -> list[int]:
        """Return the strides of the reduced elements' indices, in the order of the op's symbols."""
        order = [symbol for symbol in spec.iteration_space if symbol in reduced]
        strides, stride = {}, 1
        for symbol in reversed(order):
            strides[symbol] = stride
            stride *= spec.sizes[symbol]
        return [strides[symbol] for symbol in reduced]

    def _reduction(self, spec: OpSpec) -> None:
        axes = self.frame.axes_of(self.context.space.accesses[spec.output].symbols)
        reducer = Reducer(self.emitter, spec, self.frame.shape(axes))
        element = self._operand(spec.inputs[-1]).element
        accumulators = reducer.begin(reducer.accumulator(element, streamed=False))
        accumulators = self.accumulate(spec, reducer, accumulators)
        result = element_type(spec.output.device_dtype)
        self.set_result(spec, Value(reducer.end(accumulators, result), axes))

    def _pointwise(self, spec: OpSpec) -> None:
        operands = self._operands(spec)
        present = {axis for value in operands for axis in value.axes}
        axes = tuple(axis for axis in self.frame.axes if axis in present)
        broadcast = [self.transfers.broadcast_to(value, axes, self.frame).ssa for value in operands]
        result = element_type(spec.output.device_dtype)
        raw = emit_pointwise(self.emitter, spec.op, broadcast, spec.constants, result)
        self.set_result(spec, Value(raw, axes))

    def _operands(self, spec: OpSpec) -> list[Value]:
        """Return tensors and constants in the order of the op's operands."""
        inputs = spec.operands
        tensors, constants = iter(inputs), spec.constants
        # A constant has the type of the first tensor; in a `where`, that of the result.
        has_result_type = spec.op == WHERE or not inputs
        format = spec.output.device_dtype if has_result_type else inputs[0].device_dtype
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
        """Return a value of the scratchpad, or of a tensor that is loaded if necessary."""
        if arg.in_scratchpad:
            assert arg.name is not None
            if arg.name not in self.values:
                raise InvalidOpSpecError(
                    arg.name, "read from the scratchpad, but no earlier op has written it"
                )
            return self.values[arg.name]
        if arg not in self.loaded:
            if self.outer is not None and self._is_invariant(arg):
                return self.outer._operand(arg)
            access = self.context.space.accesses[arg]
            indices = self.context.index_tensors
            with self.context.at_read(arg):
                self.loaded[arg] = self.transfers.load(access, self.frame, indices)
        return self.loaded[arg]

    def _converted(self, value: Value, arg: TensorArg) -> Value:
        element = element_type(arg.device_dtype)
        if value.is_scalar:
            value = self.transfers.broadcast_to(value, self.frame.axes[-1:], self.frame)
        return Value(converted(self.emitter, value.ssa, element), value.axes)
