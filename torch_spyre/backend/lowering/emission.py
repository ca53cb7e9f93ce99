"""Translates nodes to instructions: addresses replace buffers, jumps replace regions.

A node becomes the instruction of its class. Each field of the instruction is the attribute of the
node with the same name, converted by the field's type: a new node needs no code here.
"""

from collections.abc import Callable
from typing import Any

from torch_spyre.backend.lowering import nodes
from torch_spyre.backend.lowering.values import Buffer, Extent, TensorView
from torch_spyre.backend.program import instructions as program
from torch_spyre.backend.program.description import Field, fields_of

_NO_OPERAND = program.Operand(0, 0, program.ElementType.F16)


class Emitter:
    """Collects the instructions of a kernel whose buffers have addresses."""

    def __init__(self, addresses: dict[Buffer, int]) -> None:
        self.addresses = addresses
        self.code: list[program.Instruction] = []
        self._conversions: dict[type, Callable[[Any], Any]] = {
            program.Operand: self._operand,
            program.Input: self._input,
            program.Lookup: self._lookup,
            program.ChainOutput: self._output,
            program.PublishedTile: self._published,
            int: _register_or_integer,
        }

    def region(self, region: list[nodes.Node]) -> None:
        """Append the instructions of a region."""
        for node in region:
            self._node(node)

    def _node(self, node: nodes.Node) -> None:
        match node:
            case nodes.Plain():
                self.code.append(node.finished)
            case nodes.For():
                self._loop(node)
            case nodes.If():
                self._branch(node)
            case _:
                self.code.append(self._instruction(node))

    def _loop(self, node: nodes.For) -> None:
        begin = len(self.code)
        self.code.append(program.Jump(node.location, 0))
        self.region(node.body)
        end = len(self.code)
        self.code.append(program.LoopEnd(node.location, begin))
        self.code[begin] = program.LoopBegin(
            node.location, node.variable, node.lower, node.upper, node.step, end
        )

    def _branch(self, node: nodes.If) -> None:
        begin = len(self.code)
        self.code.append(program.Jump(node.location, 0))
        self.region(node.then)
        if node.otherwise:
            skip = len(self.code)
            self.code.append(program.Jump(node.location, 0))
            self.code[begin] = program.Branch(node.location, node.condition, len(self.code))
            self.region(node.otherwise)
            self.code[skip] = program.Jump(node.location, len(self.code))
        else:
            self.code[begin] = program.Branch(node.location, node.condition, len(self.code))

    def _instruction(self, node: nodes.Node) -> program.Instruction:
        make: Any = node.instruction
        fields = fields_of(node.instruction)
        instruction: program.Instruction = make(
            *(self._converted(field, getattr(node, field.name)) for field in fields)
        )
        return instruction

    def _converted(self, field: Field, value: Any) -> Any:
        convert = self._conversions.get(field.type.item)
        if convert is None:
            return tuple(value) if field.type.limits else value
        return tuple(map(convert, value)) if field.type.limits else convert(value)

    # --- Conversions by the type of a field -------------------------------------------------------

    def _operand(self, tensor: TensorView) -> program.Operand:
        skipped = tensor.offset * tensor.type.bytes
        return program.Operand(
            self.addresses[tensor.buffer] + skipped,
            max(tensor.buffer.bytes - skipped, 0),
            tensor.type,
            tensor.offset_register,
            tensor.strides,
        )

    def _input(self, entry: nodes.ChainInput) -> program.Input:
        match entry:
            case TensorView():
                return program.Input(program.InputKind.OPERAND, self._operand(entry), entry.type)
            case nodes.ScalarInput():
                kind = program.InputKind.SCALAR
                return program.Input(kind, _NO_OPERAND, entry.type, entry.register)
            case nodes.IndexInput():
                return program.Input(
                    program.InputKind.INDEX,
                    _NO_OPERAND,
                    program.ElementType.I64,
                    program.NO_REGISTER,
                    entry.dimension,
                )

    def _lookup(self, tensor: TensorView) -> program.Lookup:
        return program.Lookup(
            self._operand(tensor), tuple(extent.register for extent in tensor.extents)
        )

    def _output(self, output: nodes.Output) -> program.ChainOutput:
        return program.ChainOutput(output.value, self._operand(output.tensor))

    def _published(self, tile: TensorView) -> program.PublishedTile:
        return program.PublishedTile(
            self.addresses[tile.buffer] + tile.offset * tile.type.bytes, tile.buffer.bytes
        )


def _register_or_integer(value: Extent | int) -> int:
    return value.register if isinstance(value, Extent) else value
