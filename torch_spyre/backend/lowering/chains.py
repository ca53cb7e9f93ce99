"""Builds chains of vector instructions. Values are handles until `numbered` numbers them."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation, SSAValue

from torch_spyre.backend.lowering.constants import scalar_register
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import (
    ChainInput,
    Elementwise,
    IndexInput,
    Output,
    ScalarInput,
)
from torch_spyre.backend.lowering.values import Extent, Splat, TensorView, Undefined
from torch_spyre.backend.lowering.vector_ops import vector_op
from torch_spyre.backend.program.instructions import ChainStep, ElementType


@dataclass(frozen=True)
class Handle:
    """A value of a chain: an input, or the result of a step."""

    is_input: bool
    position: int
    type: ElementType


@dataclass
class _Step:
    lookup: int
    op: str
    operand: ElementType
    result: ElementType
    inputs: tuple[Handle, ...]


@dataclass
class ChainBuilder:
    kernel: KernelContext
    inputs: list[ChainInput] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    lookups: list[TensorView] = field(default_factory=list)
    values: dict[SSAValue, Handle] = field(default_factory=dict)

    def input(self, entry: ChainInput, type: ElementType) -> Handle:
        """Return the handle of an input; equal inputs have one handle."""
        if entry in self.inputs:
            return Handle(True, self.inputs.index(entry), type)
        self.inputs.append(entry)
        return Handle(True, len(self.inputs) - 1, type)

    def scalar(self, register: int, type: ElementType) -> Handle:
        return self.input(ScalarInput(register, type), type)

    def index(self, dimension: int) -> Handle:
        return self.input(IndexInput(dimension), ElementType.I64)

    def tensor(self, value: TensorView | Splat | Undefined, strides: tuple[int, ...]) -> Handle:
        """Return an operand as an input, with a stride for each dim of the iteration space."""
        match value:
            case Undefined():
                return self.scalar(self.kernel.constant(0), value.type)
            case Splat():
                return self.scalar(value.register, value.type)
            case TensorView():
                return self.input(replace(value, strides=strides), value.type)

    def step(self, op: str, operand: ElementType, result: ElementType, *inputs: Handle) -> Handle:
        self.steps.append(_Step(-1, op, operand, result, inputs))
        return Handle(False, len(self.steps) - 1, result)

    def lookup(self, tensor: TensorView, *coordinates: Handle) -> Handle:
        """Add a step that returns the element of a tensor at coordinates."""
        self.lookups.append(tensor)
        self.steps.append(
            _Step(len(self.lookups) - 1, "", ElementType.I64, tensor.type, coordinates)
        )
        return Handle(False, len(self.steps) - 1, tensor.type)

    def numbered(
        self, results: Sequence[Handle], fixed_inputs: int = 0
    ) -> tuple[list[ChainInput], list[ChainStep], list[int]]:
        """Return the inputs and steps that the results depend on, and the numbers of the results.

        The first `fixed_inputs` inputs are retained at their positions even if unused.
        """
        steps: set[int] = set()
        inputs = set(range(fixed_inputs))
        pending = list(results)
        while pending:
            handle = pending.pop()
            if handle.is_input:
                inputs.add(handle.position)
            elif handle.position not in steps:
                steps.add(handle.position)
                pending.extend(self.steps[handle.position].inputs)
        input_numbers = {position: number for number, position in enumerate(sorted(inputs))}
        step_numbers = {
            position: len(inputs) + number for number, position in enumerate(sorted(steps))
        }

        def number(handle: Handle) -> int:
            return (input_numbers if handle.is_input else step_numbers)[handle.position]

        return (
            [self.inputs[position] for position in sorted(inputs)],
            [
                ChainStep(
                    step.lookup,
                    step.op,
                    step.operand,
                    step.result,
                    tuple(number(handle) for handle in step.inputs),
                )
                for step in (self.steps[position] for position in sorted(steps))
            ],
            [number(handle) for handle in results],
        )

    def finish(
        self, extents: tuple[Extent, ...], outputs: Sequence[tuple[Handle, TensorView]]
    ) -> Elementwise:
        inputs, steps, numbers = self.numbered([handle for handle, _ in outputs])
        return Elementwise(
            self.kernel.location,
            extents,
            inputs,
            steps,
            self.lookups,
            [Output(number, tensor) for number, (_, tensor) in zip(numbers, outputs, strict=True)],
        )

    # Regions of scalar ops

    def body(self, block: Block, arguments: list[Handle]) -> list[Handle]:
        """Apply a region to its arguments; return the values that its terminator yields."""
        terminator = block.last_op
        assert terminator is not None, "regions end in a terminator"
        self.region(block, arguments, terminator)
        return [self.value(operand) for operand in terminator.operands]

    def region(self, block: Block, arguments: list[Handle], stop: Operation) -> None:
        """Apply the ops before `stop`."""
        self.values.update(zip(block.args, arguments, strict=True))
        self.operations(itertools.takewhile(lambda operation: operation is not stop, block.ops))

    def operations(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._operation(operation)

    def value(self, value: SSAValue) -> Handle:
        """Return the handle of a scalar."""
        if value in self.values:
            return self.values[value]
        # Defined outside the region: the same for every element.
        type = self.kernel.element_type(value.type)
        self.values[value] = self.scalar(self.kernel.scalar(value), type)
        return self.values[value]

    def _operation(self, operation: Operation) -> None:
        kernel = self.kernel
        match operation:
            case IndexOp():
                self.values[operation.result] = self.index(operation.dim.value.data)
            case arith.ConstantOp():
                if not isinstance(operation.value, IntegerAttr | FloatAttr):
                    raise kernel.error(
                        f"{operation.name} in a region must be a scalar, not a "
                        f"{operation.result.type}"
                    )
                type = kernel.element_type(operation.result.type)
                register = scalar_register(kernel, operation.value, type)
                self.values[operation.result] = self.scalar(register, type)
            case tensor.ExtractOp():
                table = kernel.to_buffer(kernel.tensor(operation.tensor))
                coordinates = [self.value(index) for index in operation.indices]
                self.values[operation.result] = self.lookup(table, *coordinates)
            case _:
                self._vector_op(operation)

    def _vector_op(self, operation: Operation) -> None:
        op = vector_op(operation)
        if op is None or any(isinstance(v.type, TensorType) for v in operation.operands):
            raise self.kernel.error(
                f"{operation.name} is not supported in a region: use scalar ops of arith, math or "
                "spyreop"
            )
        handles = [self.value(operand) for operand in op.operands]
        operand_type = self.value(op.typed_operand).type
        handles += [
            self.scalar(self.kernel.literal(bits, operand_type), operand_type)
            for bits in op.constants
        ]
        result = self.kernel.element_type(op.result.type)
        self.values[op.result] = self.step(op.name, operand_type, result, *handles)
