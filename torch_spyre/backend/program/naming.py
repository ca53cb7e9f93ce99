"""The text of registers, operands, views and subscripts in listings."""

import struct
from collections.abc import Iterable, Sequence

from torch_spyre.backend.program.instructions import (
    CORE_REGISTER,
    CORE_X,
    CORE_Y,
    CORE_Z,
    NO_REGISTER,
    ElementType,
    Expression,
    Operand,
    ProgramContent,
    Space,
    Subscript,
    TermKind,
    View,
)

_OPERATORS = {
    TermKind.ADD: "+",
    TermKind.MULTIPLY: "*",
    TermKind.FLOOR_DIVIDE: "floordiv",
    TermKind.CEIL_DIVIDE: "ceildiv",
    TermKind.MODULO: "mod",
}


def type_name(type: ElementType) -> str:
    return type.name.lower()


def shape(sizes: Iterable[object]) -> str:
    return "x".join(map(str, sizes)) or "1"


def comma_separated(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


class Names:
    """Names of registers: constants by value, arguments and the core's coordinates by name."""

    def __init__(self, content: ProgramContent) -> None:
        self.constants = {constant.destination: constant.bits for constant in content.constants}
        self.names = {CORE_REGISTER: "core", CORE_X: "core.x", CORE_Y: "core.y", CORE_Z: "core.z"}
        for argument in content.arguments:
            self.names[argument.destination] = f"%{argument.name}"

    def register(self, register: int, type: ElementType = ElementType.I64) -> str:
        if register not in self.constants:
            return self.names.get(register, f"r{register}")
        bits = self.constants[register]
        if not type.is_float:
            return str(bits)
        (value,) = struct.unpack("<f", (bits & 0xFFFFFFFF).to_bytes(4, "little"))
        return f"{value:g}"

    def extents(self, registers: Sequence[int]) -> str:
        return shape(map(self.register, registers))

    def start(self, register: int) -> str:
        return "" if register == NO_REGISTER else f" from {self.register(register)}"

    def operand(self, operand: Operand, extents: Sequence[int] | None) -> str:
        """Return [start, end) in bytes, type and extents; strides only if they are not dense."""
        byte_range = f"[{operand.address}, {operand.address + operand.bytes})"
        text = f"{byte_range} {type_name(operand.type)}"
        if extents is not None:
            text += f" {self.extents(extents)}"
            if not self._is_dense(operand.strides, extents):
                text += f" by {comma_separated(operand.strides)}"
        return text + self.start(operand.offset)

    def _is_dense(self, strides: Sequence[int], extents: Sequence[int]) -> bool:
        """Return whether strides are dense and row-major, as far as the extents are known."""
        if len(strides) != len(extents):
            return False
        expected = 1
        for stride, register in zip(reversed(strides), reversed(extents), strict=True):
            size = self.constants.get(register)
            if size != 1 and stride != expected:
                return False
            if size is not None:
                expected *= size
        return True

    def view(self, view: View) -> str:
        memory = "memory"
        if view.space is Space.SCRATCHPAD:
            core = "this core" if view.core == NO_REGISTER else f"core {self.register(view.core)}"
            memory = f"the scratchpad of {core}"
        text = f"{memory} at {self.register(view.base)}, {type_name(view.type)}"
        text += f" by {comma_separated(map(self.register, view.strides))}"
        if view.lower:
            lower = comma_separated(map(self.register, view.lower))
            text += f", {self.extents(view.extents)} from ({lower})"
        return text

    def subscript(self, subscript: Subscript) -> str:
        inside = comma_separated(map(self._infix, subscript.expressions))
        return f"({self.view(subscript.index)})[{inside}]" if subscript.indirect else inside

    def _infix(self, expression: Expression) -> str:
        stack: list[str] = []
        for term in expression:
            match term.kind:
                case TermKind.CONSTANT:
                    stack.append(str(term.value))
                case TermKind.REGISTER:
                    stack.append(self.register(term.value))
                case TermKind.VARIABLE:
                    stack.append(f"d{term.value}")
                case _ if len(stack) > 1:
                    right, left = stack.pop(), stack.pop()
                    stack.append(f"({left} {_OPERATORS[term.kind]} {right})")
                case _:
                    stack.append(f"? {_OPERATORS[term.kind]}")
        return " ".join(stack).removeprefix("(").removesuffix(")") if stack else "?"
