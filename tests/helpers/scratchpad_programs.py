"""Programs of copies between ranges of the scratchpad, in nested loops, for tests of occupancy."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import ElementType, Operand

SLOTS = 6  # ranges begin and end at multiples of `SLOT` bytes
SLOT = 16
TRIPS = 3


@dataclass
class CopyProgram:
    """A program of copies of 16-bit elements; `trace` lists the instructions that are executed."""

    code: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    trace: list = field(default_factory=list)

    def constant(self, value):
        return self.constants.setdefault(value, ins.FIRST_FREE_REGISTER + len(self.constants))

    def operand(self, slots):
        begin, end = slots
        size = (end - begin) * SLOT
        return Operand(begin * SLOT, size, ElementType.F16, ins.NO_REGISTER, (1,))

    def copy(self, source, destination):
        count = (min(source[1] - source[0], destination[1] - destination[0])) * SLOT // 2
        extents = (self.constant(count),)
        self.code.append(ins.Copy(0, extents, self.operand(source), self.operand(destination)))

    def content(self):
        return ins.ProgramContent(
            name="copies",
            grid=(1, 1, 1),
            registers=100,
            constants=tuple(ins.Constant(reg, value) for value, reg in self.constants.items()),
            arguments=(),
            fixed_buffers=(),
            scratchpad_bytes=SLOTS * SLOT,
            channels=0,
            tables=(),
            locations=(ins.SourceLocation("test.copy", 0, 0),),
            code=tuple(self.code),
        )


SLOT_RANGES = st.tuples(st.integers(0, SLOTS - 1), st.integers(1, 2)).map(
    lambda drawn: (drawn[0], min(SLOTS, drawn[0] + drawn[1]))
)
COPIES = st.tuples(SLOT_RANGES, SLOT_RANGES)
# A tree: copies, and lists that are loops of three iterations.
BODIES = st.recursive(
    st.lists(COPIES, min_size=1, max_size=4),
    lambda bodies: st.lists(COPIES | bodies, min_size=1, max_size=4),
    max_leaves=12,
)


def copy_program(body):
    """Return the program of a tree of copies and loops."""
    program = CopyProgram()
    program.trace = _emit(program, body)
    return program


def _emit(program, body):
    """Append a body; return the indices of the copies in the order of their execution."""
    trace = []
    for item in body:
        if isinstance(item, tuple):
            trace.append(len(program.code))
            program.copy(*item)
            continue
        begin = len(program.code)
        bounds = [program.constant(value) for value in (0, TRIPS, 1)]
        program.code.append(None)
        inner = _emit(program, item)
        end = len(program.code)
        program.code.append(ins.LoopEnd(0, begin))
        program.code[begin] = ins.LoopBegin(0, 90, *bounds, end)
        trace += TRIPS * inner
    return trace
