"""The nesting of a program's loops, with the device time of each: the frames of a flame graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch_spyre.backend.program.instructions import LoopBegin, LoopEnd
from torch_spyre.backend.program.labels import Labels
from torch_spyre.kernel_counters.counters import InstructionCounters, KernelCounters


@dataclass
class LoopNode:
    """A program, a loop, or an instruction (`counters`); `time_ps` is that of all inside."""

    label: str
    source: str = ""
    counters: InstructionCounters | None = None
    children: list["LoopNode"] = field(default_factory=list)

    @property
    def time_ps(self) -> int:
        own = self.counters.time_ps if self.counters is not None else 0
        return own + sum(child.time_ps for child in self.children)


def loop_tree(kernel: KernelCounters) -> LoopNode:
    """Return the program as the root of its loops and instructions, in program order."""
    labels = Labels(kernel.content)
    counters: Mapping[int, InstructionCounters] = {
        entry.index: entry for entry in kernel.instructions
    }
    root = LoopNode(kernel.name)
    open_nodes = [root]
    for index, instruction in enumerate(kernel.content.code):
        if isinstance(instruction, LoopBegin):
            loop = LoopNode(labels.label(index), labels.source(index))
            open_nodes[-1].children.append(loop)
            open_nodes.append(loop)
        elif isinstance(instruction, LoopEnd):
            open_nodes.pop()
        elif index in counters:
            entry = counters[index]
            open_nodes[-1].children.append(LoopNode(entry.label, entry.source, entry))
    return root
