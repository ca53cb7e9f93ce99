"""Short names of instructions, for tables and pictures of programs."""

from collections.abc import Iterable, Sequence

from torch_spyre.backend.program.instructions import (
    Chain,
    Delivered,
    Indexed,
    IndirectTransfer,
    Instruction,
    LoopBegin,
    Move,
    ProgramContent,
    Reduce,
    Scalar,
    Space,
    Transfer,
    View,
)
from torch_spyre.backend.program.naming import Names
from torch_spyre.backend.program.origins import Origins

_SHOWN_OPS = 4


class Labels:
    """The names of a program's instructions: `load %x`, `mulf addf`, `for r9 = 0 to 4 step 1`.

    `ktir_lines` is the text that the program was compiled from, or `ops` are the ops of the specs
    that it was compiled from.
    """

    def __init__(
        self, content: ProgramContent, ktir_lines: Sequence[str] = (), ops: Sequence[str] = ()
    ) -> None:
        self.content = content
        self._origins = Origins(ktir_lines)
        self._ops = ops
        self._names = Names(content)
        self._arrays = _arrays_of_registers(content)

    def label(self, index: int) -> str:
        """Return what an instruction does, in a few words."""
        instruction = self.content.code[index]
        match instruction:
            case Transfer() | IndirectTransfer():
                verb = "store" if instruction.store else "load"
                return " ".join((verb, *self.arrays(instruction)))
            case Reduce():
                steps = [step.op for step in instruction.steps]
                combined = instruction.combine or " ".join(step.op for step in instruction.combiner)
                return f"reduce {combined}" + (f" of {_joined(steps)}" if steps else "")
            case Chain():
                steps = [step.op or "element of a tensor" for step in instruction.steps]
                return _joined(steps) if steps else "copy" if _reads(instruction) else "fill"
            case LoopBegin():
                name = self._names.register
                bounds = f"{name(instruction.lower)} to {name(instruction.upper)}"
                return f"for {name(instruction.variable)} = {bounds} step {name(instruction.step)}"
            case Indexed():
                return (
                    f"scatter {instruction.combine}".rstrip() if instruction.scatter else "gather"
                )
            case Delivered():
                return f"deliver: {instruction.kind.name.lower().replace('_', ' ')}"
        return instruction.mnemonic

    def arrays(self, instruction: Instruction) -> list[str]:
        """Return the names of the arrays in device memory that a transfer moves."""
        views: Sequence[View] = ()
        if isinstance(instruction, Transfer):
            views = instruction.views
        if isinstance(instruction, IndirectTransfer):
            views = (instruction.view,)
        names = (
            name
            for view in views
            for name in (
                sorted(self._arrays.get(view.base, ()))
                if view.space is Space.GLOBAL
                else ("a scratchpad",)
            )
        )
        return list(dict.fromkeys(names))

    def source(self, index: int) -> str:
        """Return the op that an instruction comes from, with line and column if it has them."""
        location = self.content.locations[self.content.code[index].location]
        if not location.column:
            return location.op
        return f"{location.op} {location.line}:{location.column}"

    def origin(self, index: int) -> str:
        """Return the line or op of the user's program that an instruction comes from, if known."""
        location = self.content.locations[self.content.code[index].location]
        if location.column:
            return self._origins.of_line(location.line)
        # Without a text, the line is the number of a spec, from one.
        return self._ops[location.line - 1] if 0 < location.line <= len(self._ops) else ""


def _reads(chain: Chain) -> bool:
    return any(entry.operand.bytes for entry in chain.inputs)


def _joined(ops: Sequence[str]) -> str:
    more = len(ops) - _SHOWN_OPS
    return " ".join(ops[:_SHOWN_OPS]) + (f" (and {more} more)" if more > 0 else "")


def _arrays_of_registers(content: ProgramContent) -> dict[int, frozenset[str]]:
    """Return for each register the array arguments that its value is computed from."""
    arrays = {
        argument.destination: frozenset([f"%{argument.name}"])
        for argument in content.arguments
        if argument.is_array
    }
    constants = {constant.destination: constant.bits for constant in content.constants}
    for register, bits in constants.items():
        # The base of a fixed buffer is its address, in elements.
        for buffer in content.fixed_buffers:
            if bits * buffer.type.bytes == buffer.address:
                arrays.setdefault(register, frozenset([f"%{buffer.name}"]))
    for instruction in content.code:
        match instruction:
            case Scalar():
                _add(arrays, instruction.destination, instruction.inputs)
            case Move():
                _add(arrays, instruction.destination, (instruction.source,))
    return arrays


def _add(arrays: dict[int, frozenset[str]], destination: int, sources: Iterable[int]) -> None:
    names = frozenset(name for source in sources for name in arrays.get(source, ()))
    if names:
        arrays[destination] = arrays.get(destination, frozenset()) | names
