"""A simple, slow interpreter of device programs on int32, to compare compilations.

It computes and writes one element at a time, in forward or reverse order, so that any wrong
aliasing of buffers by the compiler changes a result.
"""

import itertools
import operator

from torch_spyre.backend.program import instructions as program
from torch_spyre.backend.program.instructions import NO_REGISTER, InputKind
from torch_spyre.testing.instructions import sort

OPS = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "xori": operator.xor,
    "andi": operator.and_,
    "maxsi": max,
    "minsi": min,
    "remui": operator.mod,
    "floordivsi": operator.floordiv,
    "cmpi_eq": lambda a, b: int(a == b),
    "cmpi_slt": lambda a, b: int(a < b),
    "index_cast": lambda a: a,
}
# The content of uninitialized elements. Kernels never write this value.
POISON = 0x5EAD


def wrap_to_int32(value):
    return (value + 2**31) % 2**32 - 2**31


class Interpreter:
    """Interpret a program on `arrays`, lists of elements by argument name, which stores mutate."""

    def __init__(self, content, arrays, scalars=(), *, reverse=False):
        self.content = content
        self.reverse = reverse
        self.registers = [0] * content.registers
        for constant in content.constants:
            self.registers[constant.destination] = constant.bits
        self.memory = {}
        base = 0
        scalar_values = iter(scalars)
        for argument in content.arguments:
            if not argument.is_array:
                self.registers[argument.destination] = next(scalar_values)
                continue
            self.registers[argument.destination] = base
            array = arrays[argument.name]
            for position in range(len(array)):
                self.memory[base + position] = (array, position)
            base += len(array) + 1000
        self.scratchpad = [POISON] * (content.scratchpad_bytes // 4)

    def run(self):
        position = 0
        while position < len(self.content.code):
            position = self.step(position, self.content.code[position])
        return self

    def step(self, position, instruction):
        registers = self.registers
        match instruction:
            case program.LoopBegin():
                registers[instruction.variable] = registers[instruction.lower]
                inside = registers[instruction.lower] < registers[instruction.upper]
                return position + 1 if inside else instruction.end + 1
            case program.LoopEnd():
                begin = self.content.code[instruction.begin]
                registers[begin.variable] += registers[begin.step]
                inside = registers[begin.variable] < registers[begin.upper]
                return instruction.begin + 1 if inside else position + 1
            case program.Branch():
                return position + 1 if registers[instruction.condition] else instruction.target
            case program.Jump():
                return instruction.target
            case program.Move():
                registers[instruction.destination] = registers[instruction.source]
            case program.Scalar():
                values = [registers[register] for register in instruction.inputs]
                registers[instruction.destination] = OPS[instruction.op](*values)
            case _:
                self.on_tensors(instruction)
        return position + 1

    def on_tensors(self, instruction):
        match instruction:
            case program.Extract():
                point = [self.registers[index] for index in instruction.indices]
                at = self.address(instruction.source, point)
                self.registers[instruction.destination] = self.scratchpad[at]
            case program.Transfer():
                self.transfer(instruction)
            case program.Chain():
                self.chain(instruction)
            case program.Reduce():
                self.reduce(instruction)
            case program.Matmul():
                self.matmul(instruction)
            case program.Copy():
                for point in self.points(instruction.extents):
                    value = self.scratchpad[self.address(instruction.source, point)]
                    self.scratchpad[self.address(instruction.destination, point)] = value
            case program.Sort():
                self.sort(instruction)
            case program.Indexed():
                self.indexed(instruction)
            case program.Literal():
                start = instruction.destination.address // 4
                self.scratchpad[start : start + len(instruction.values)] = instruction.values
            case _:
                raise NotImplementedError(instruction)

    def sort(self, instruction):
        *rows, length = instruction.extents
        first, kept = self.registers[instruction.first], self.registers[instruction.kept]
        for row in self.points(rows):
            keys, indices = (
                [
                    self.scratchpad[self.address(operand, (*row, i))]
                    for i in range(self.registers[length])
                ]
                for operand in (instruction.keys, instruction.indices)
            )
            results = sort(keys, indices, descending=instruction.descending, first=first, kept=kept)
            operands = (instruction.sorted_keys, instruction.sorted_indices)
            for operand, values in zip(operands, results, strict=True):
                for i, value in enumerate(values):
                    self.scratchpad[self.address(operand, (*row, i))] = value

    def points(self, extents):
        sizes = [range(self.registers[register]) for register in extents]
        points = list(itertools.product(*sizes))
        return points[::-1] if self.reverse else points

    def address(self, operand, point):
        offset = 0 if operand.offset == NO_REGISTER else self.registers[operand.offset]
        moved = offset + sum(map(operator.mul, operand.strides, point))
        assert 0 <= 4 * moved < operand.bytes, "outside the operand's buffer"
        return operand.address // 4 + moved

    def transfer(self, instruction):
        (view,) = instruction.views
        assert not instruction.points
        strides = [self.registers[register] for register in view.strides]
        anchor = [self.registers[register] for register in instruction.anchor]
        for point in self.points(instruction.extents):
            at = self.registers[view.base]
            at += sum((a + p) * s for a, p, s in zip(anchor, point, strides, strict=True))
            array, position = self.memory[at]
            tile_address = self.address(instruction.tile, point)
            if instruction.store:
                array[position] = self.scratchpad[tile_address]
            else:
                self.scratchpad[tile_address] = array[position]

    def indexed(self, instruction):
        sizes = [range(self.registers[register]) for register in instruction.extents]
        for point in itertools.product(*sizes):  # in order, which scatters depend on
            index = self.scratchpad[self.address(instruction.index, point)]
            distance = index - self.registers[instruction.first]
            if not 0 <= distance < self.registers[instruction.length]:
                continue
            tile = self.address(instruction.tile, point)
            table = self.address(instruction.table, point) + distance * instruction.step
            if not instruction.scatter:
                self.scratchpad[tile] = self.scratchpad[table]
                continue
            value = self.scratchpad[tile]
            if instruction.combine:
                combined = OPS[instruction.combine](self.scratchpad[table], value)
                value = wrap_to_int32(combined)
            self.scratchpad[table] = value

    def values(self, chain, point):
        values = []
        for input in chain.inputs:
            match input.kind:
                case InputKind.OPERAND:
                    values.append(self.scratchpad[self.address(input.operand, point)])
                case InputKind.SCALAR:
                    values.append(self.registers[input.source])
                case InputKind.INDEX:
                    values.append(point[input.dimension])
        for step in chain.steps:
            inputs = [values[number] for number in step.inputs]
            if step.lookup >= 0:
                lookup = chain.lookups[step.lookup].operand
                values.append(self.scratchpad[self.address(lookup, inputs)])
            else:
                values.append(wrap_to_int32(OPS[step.op](*inputs)))
        return values

    def chain(self, chain):
        for point in self.points(chain.extents):
            values = self.values(chain, point)
            for output in chain.outputs:
                self.scratchpad[self.address(output.operand, point)] = values[output.value]

    def reduce(self, reduce):
        (value,), (output,) = reduce.values, reduce.outputs
        reduced = {}
        for point in self.points(reduce.extents):
            element = self.values(reduce, point)[value]
            at = self.address(output, point)
            if at in reduced:
                reduced[at] = wrap_to_int32(OPS[reduce.combine](reduced[at], element))
                continue
            if reduce.initial:
                initial = self.scratchpad[self.address(reduce.initial[0], point)]
                element = wrap_to_int32(OPS[reduce.combine](initial, element))
            reduced[at] = element
        for at, element in reduced.items():
            self.scratchpad[at] = element

    def matmul(self, matmul):
        inner = self.registers[matmul.inner]
        for batch, row, column in self.points((matmul.batch, matmul.rows, matmul.columns)):
            total = 0
            if matmul.has_initial:
                total = self.scratchpad[self.address(matmul.initial, (batch, row, column))]
            for k in range(inner):
                left = self.scratchpad[self.address(matmul.a, (batch, row, k))]
                right = self.scratchpad[self.address(matmul.b, (batch, k, column))]
                total += left * right
            output_address = self.address(matmul.output, (batch, row, column))
            self.scratchpad[output_address] = wrap_to_int32(total)
