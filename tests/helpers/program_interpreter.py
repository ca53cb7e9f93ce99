"""A slow, plain interpreter of device programs on int32, to compare compilations with each other.

It goes element by element and writes each element at once, forwards or backwards, so that any
overlap of memory that the compiler should not have made changes a result.
"""

import itertools
import operator

from torch_spyre.backend.program import instructions as program
from torch_spyre.backend.program.instructions import NO_REGISTER, InputKind

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
# Never written by a kernel: what an element holds before anything gives it a value.
POISON = 0x5EAD


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


class Interpreter:
    """`arrays` are lists of elements by argument name; each is changed by stores."""

    def __init__(self, content, arrays, scalars=(), *, backwards=False):
        self.content = content
        self.backwards = backwards
        self.registers = [0] * content.registers
        for constant in content.constants:
            self.registers[constant.destination] = constant.bits
        self.memory = {}
        base = 0
        given = iter(scalars)
        for argument in content.arguments:
            if not argument.is_array:
                self.registers[argument.destination] = next(given)
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
                at = self.place(instruction.source, point)
                self.registers[instruction.destination] = self.scratchpad[at]
            case program.Transfer():
                self.transfer(instruction)
            case program.Chain():
                self.chain(instruction)
            case program.Reduce():
                self.reduce(instruction)
            case program.Matmul():
                self.product(instruction)
            case program.Copy():
                for point in self.points(instruction.extents):
                    value = self.scratchpad[self.place(instruction.source, point)]
                    self.scratchpad[self.place(instruction.destination, point)] = value
            case program.Literal():
                start = instruction.destination.address // 4
                self.scratchpad[start : start + len(instruction.values)] = instruction.values
            case _:
                raise NotImplementedError(instruction)

    def points(self, extents):
        sizes = [range(self.registers[register]) for register in extents]
        found = list(itertools.product(*sizes))
        return found[::-1] if self.backwards else found

    def place(self, operand, point):
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
            place = self.place(instruction.tile, point)
            if instruction.store:
                array[position] = self.scratchpad[place]
            else:
                self.scratchpad[place] = array[position]

    def values(self, chain, point):
        values = []
        for found in chain.inputs:
            match found.kind:
                case InputKind.OPERAND:
                    values.append(self.scratchpad[self.place(found.operand, point)])
                case InputKind.SCALAR:
                    values.append(self.registers[found.source])
                case InputKind.INDEX:
                    values.append(point[found.dimension])
        for step in chain.steps:
            inputs = [values[number] for number in step.inputs]
            if step.lookup >= 0:
                lookup = chain.lookups[step.lookup].operand
                values.append(self.scratchpad[self.place(lookup, inputs)])
            else:
                values.append(wrapped(OPS[step.op](*inputs)))
        return values

    def chain(self, chain):
        for point in self.points(chain.extents):
            values = self.values(chain, point)
            for output in chain.outputs:
                self.scratchpad[self.place(output.operand, point)] = values[output.value]

    def reduce(self, reduce):
        (value,), (output,) = reduce.values, reduce.outputs
        folded = {}
        for point in self.points(reduce.extents):
            found = self.values(reduce, point)[value]
            at = self.place(output, point)
            if at in folded:
                folded[at] = wrapped(OPS[reduce.combine](folded[at], found))
                continue
            if reduce.initial:
                initial = self.scratchpad[self.place(reduce.initial[0], point)]
                found = wrapped(OPS[reduce.combine](initial, found))
            folded[at] = found
        for at, found in folded.items():
            self.scratchpad[at] = found

    def product(self, product):
        inner = self.registers[product.inner]
        for batch, row, column in self.points((product.batch, product.rows, product.columns)):
            total = 0
            if product.has_initial:
                total = self.scratchpad[self.place(product.initial, (batch, row, column))]
            for k in range(inner):
                left = self.scratchpad[self.place(product.a, (batch, row, k))]
                right = self.scratchpad[self.place(product.b, (batch, k, column))]
                total += left * right
            place = self.place(product.output, (batch, row, column))
            self.scratchpad[place] = wrapped(total)
