"""Evaluates OpSpecs on the memory of a kernel, op by op, each over its whole iteration space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from sympy import Symbol

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_spec import IndirectAccess, OpSpec, TensorArg, sympify
from torch_spyre._inductor.op_table import INDEX, WHERE, Kind, OpRecord, find_record
from torch_spyre._inductor.to_ktir.arity import OPERAND
from torch_spyre._inductor.verification import op_results
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.parts import parts_of
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.scratchpad import Scratchpad
from torch_spyre._inductor.verification.value_formats import (
    ValueFormat,
    rounded,
    value_format,
)
from torch_spyre.errors import NoReferenceError


@dataclass(frozen=True)
class Unverified:
    """An op whose result has no reference, and why."""

    op: str
    reason: str


class Interpreter:
    """Interprets the stages of one kernel; `memories` are those of its parameters by name."""

    def __init__(self, memories: Mapping[str, Memory]) -> None:
        self.memories = dict(memories)
        self.unverified: list[Unverified] = []

    def run(self, stages: Sequence[Sequence[OpSpec]]) -> None:
        """Interpret all stages."""
        for specs in stages:
            for part in parts_of(specs, self.memories):
                scratchpad = Scratchpad()
                for spec in specs:
                    self._evaluate(spec, Grid(spec.sizes, part), scratchpad)

    def _evaluate(self, spec: OpSpec, grid: Grid, scratchpad: Scratchpad) -> None:
        """Write the bounds of an op's result; make the result unknown if it has no reference."""
        try:
            _Evaluation(spec, grid, self.memories, scratchpad).run()
        except NoReferenceError as failure:
            self.unverified.append(Unverified(spec.op, failure.reason))
            if spec.output.in_scratchpad:
                scratchpad.forget(spec.output, grid)
            else:
                memory = self.memories[parameter_name(spec.output)]
                memory.forget(value_format(spec.output.device_dtype))


class _Evaluation:
    """One op: its operands and its result as tensors over the iteration space."""

    def __init__(
        self,
        spec: OpSpec,
        grid: Grid,
        memories: Mapping[str, Memory],
        scratchpad: Scratchpad,
    ) -> None:
        self.spec, self.grid = spec, grid
        self.memories, self.scratchpad = memories, scratchpad
        self.lookups: dict[str, torch.Tensor] = {}

    def run(self) -> None:
        spec = self.spec
        values = self._result()
        if spec.output.in_scratchpad:
            self.scratchpad.write(spec.output, self.grid, values)
            return
        output = self._positions(spec.output)
        shape = torch.broadcast_shapes(output.shape, values.shape)
        is_partial = bool(spec.op_info.get("partial"))
        self._memory_of(spec.output).write(
            output.expand(shape),
            values.expand(shape),
            value_format(spec.output.device_dtype),
            stick=1 if is_partial else spec.output.elements_per_stick,
        )

    # Accesses

    def _memory_of(self, arg: TensorArg) -> Memory:
        return self.memories[parameter_name(arg)]

    def _positions(self, arg: TensorArg) -> torch.Tensor:
        return self.grid.positions(arg.device_size, arg.device_coordinates, self._lookup)

    def _lookup(self, access: IndirectAccess) -> torch.Tensor:
        """Return the index that an index tensor holds at each point."""
        if access.tensor in self.lookups:
            return self.lookups[access.tensor]
        arg = next(arg for arg in self.spec.args if arg.name == access.tensor)
        positions = self.grid.positions(arg.device_size, arg.device_coordinates)
        indices = self._memory_of(arg).read(positions, value_format(arg.device_dtype))
        if not bool(indices.is_point.all()):
            raise NoReferenceError(f"the indices {access.tensor} are known within bounds only")
        self.lookups[access.tensor] = indices.low.to(torch.int64)
        return self.lookups[access.tensor]

    def _read(self, arg: TensorArg) -> Bounds:
        if arg.in_scratchpad:
            return self.scratchpad.read(arg, self.grid)
        positions = self._positions(arg)
        return self._memory_of(arg).read(positions, value_format(arg.device_dtype))

    # Results

    def _result(self) -> Bounds:
        """Return the result in the format of the output."""
        spec = self.spec
        target = value_format(spec.output.device_dtype)
        if spec.op == INDEX:
            expression = sympify(str(spec.op_info["expression"]))
            return rounded(Bounds.exact(self.grid.evaluate(expression)), target)
        multi_loop = find_multi_loop_op(spec.op)
        if multi_loop is not None:
            operands = [self._read(arg) for arg in spec.operands]
            result = multi_loop.enclose(spec, operands, self.grid)
            if result is None:
                raise NoReferenceError(f"{spec.op} has no bounds")
            return op_results.multi_loop(result, target)
        record = find_record(spec.op)
        if record is None:
            raise NoReferenceError(f"{spec.op} is not in the op table")
        if record.kind is Kind.MATMUL:
            return self._matmul(target, self._reduced_dims())
        if record.kind in (Kind.REDUCTION, Kind.ARG_REDUCTION):
            return self._reduction(record, target, self._reduced_dims())
        return self._elementwise(record, target)

    def _reduced_dims(self) -> list[int]:
        symbols = self._symbols(self.spec.output)
        return [dim for symbol, dim in self.grid.dims.items() if symbol not in symbols]

    def _symbols(self, arg: TensorArg) -> set[Symbol]:
        """Return the symbols that the coordinates of a tensor depend on."""
        symbols: set[Symbol] = set()
        for coordinate in arg.device_coordinates:
            symbols |= sympify(str(coordinate)).free_symbols & self.grid.dims.keys()
            for access in sympify(str(coordinate)).atoms(IndirectAccess):
                indices = next(index for index in self.spec.args if index.name == access.tensor)
                symbols |= self._symbols(indices)
        return symbols

    def _matmul(self, target: ValueFormat, dims: Sequence[int]) -> Bounds:
        left, right = (self._read(arg) for arg in self.spec.operands)
        return op_results.matmul(left, right, dims, self.grid, self.spec.cores, target)

    def _reduction(self, record: OpRecord, target: ValueFormat, dims: Sequence[int]) -> Bounds:
        (arg,) = self.spec.operands
        source, constants = value_format(arg.device_dtype), self._named_constants(record)
        operand = self._read(arg)
        return op_results.reduction(
            record, operand, constants, dims, self.grid, self.spec.cores, source, target
        )

    def _elementwise(self, record: OpRecord, target: ValueFormat) -> Bounds:
        formats = [value_format(arg.device_dtype) for arg in self.spec.operands]
        # A constant has the type of the first tensor; in a `where`, that of the result.
        has_result_type = record.name == WHERE or not formats
        source = target if has_result_type else formats[0]
        operands = self._operands(source)
        return op_results.elementwise(
            record, operands, self._named_constants(record), source, target
        )

    def _operands(self, constant_format: ValueFormat) -> list[Bounds]:
        """Return tensors and constants in the order of the op's operands."""
        spec = self.spec
        tensors = iter(spec.operands)
        count = len(spec.operands) + sum(name.startswith(OPERAND) for name in spec.constants)
        operands: list[Bounds] = []
        for position in range(count):
            name = f"{OPERAND}{position}"
            if name in spec.constants:
                constant = op_results.constant(spec.constants[name], constant_format, self.grid)
                operands.append(constant)
            else:
                operands.append(self._read(next(tensors)))
        return operands

    def _named_constants(self, record: OpRecord) -> list[float]:
        return [self.spec.constants[name] for name in record.constants]
