"""Names of the tensors in a scratchpad."""

import re
from collections.abc import Sequence

from torch_spyre.backend.program.instructions import (
    IndirectTransfer,
    ProgramContent,
    Transfer,
)
from torch_spyre.backend.program.labels import Labels

_RESULT = re.compile(r"\s*(%[\w.$-]+)(?::\d+)?(?:\s*,\s*%[\w.$-]+)*\s*=")


class TensorNames:
    """Names tensors by the instructions that write them.

    A tensor that is loaded has the name of its array. Another one has the name of its value in the
    KTIR, whose lines may be unknown, and what computes it.
    """

    def __init__(self, content: ProgramContent, ktir_lines: Sequence[str] = ()) -> None:
        self._content = content
        self._lines = ktir_lines
        self._labels = Labels(content)

    def name(self, writer: int) -> str:
        """Return the name of the tensor that an instruction writes."""
        instruction = self._content.code[writer]
        if isinstance(instruction, Transfer | IndirectTransfer):
            arrays = self._labels.arrays(instruction)
            if arrays:
                return f"{', '.join(arrays)} (loaded)"
        value, label = self._value(writer), self._labels.label(writer)
        return f"{value} ({label})" if value else label

    def _value(self, writer: int) -> str:
        """Return the name of the value in the KTIR; empty if it is unknown."""
        line = self._content.locations[self._content.code[writer].location].line
        if not 0 < line <= len(self._lines):
            return ""
        match = _RESULT.match(self._lines[line - 1])
        return match[1] if match else ""
