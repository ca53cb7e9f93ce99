"""The successors of instructions: where the control flow of a program may continue."""

from collections.abc import Mapping, Sequence

from torch_spyre.backend.program.instructions import (
    Branch,
    Extract,
    Instruction,
    Jump,
    LoopBegin,
    LoopEnd,
    Move,
    ProgramContent,
    Scalar,
    TableLookup,
)

Graph = list[tuple[int, ...]]
_UNCOUNTED = (Branch, Jump, LoopBegin, LoopEnd, Scalar, Move, Extract, TableLookup)


def is_counted(instruction: Instruction) -> bool:
    """Return whether the recorder counts the executions of an instruction."""
    return not isinstance(instruction, _UNCOUNTED)


def successors(content: ProgramContent, constants: Mapping[int, int]) -> Graph:
    """Return for each instruction those that may be executed next.

    The end of the program is the number of its instructions. `constants` are the registers with
    known values: a loop whose bounds they hold is entered, and repeated, only if it has trips.
    """
    graph: Graph = []
    for index, instruction in enumerate(content.code):
        match instruction:
            case LoopBegin():
                trips = _trips(instruction, constants)
                body, after = (index + 1,), (instruction.end + 1,)
                graph.append(after if trips == 0 else body if trips else body + after)
            case LoopEnd():
                begin = content.code[instruction.begin]
                assert isinstance(begin, LoopBegin)
                repeated = () if _trips(begin, constants) == 1 else (instruction.begin + 1,)
                graph.append((*repeated, index + 1))
            case Branch():
                graph.append((index + 1, instruction.target))
            case Jump():
                graph.append((instruction.target,))
            case _:
                graph.append((index + 1,))
    return graph


def _trips(loop: LoopBegin, constants: Mapping[int, int]) -> int | None:
    """Return how often a loop is executed; None if its bounds are not constant."""
    lower, upper, step = (constants.get(item) for item in (loop.lower, loop.upper, loop.step))
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return max(0, -(-(upper - lower) // step))


def taken_successors(
    content: ProgramContent, constants: Mapping[int, int], executions: Mapping[int, int]
) -> Graph:
    """Return the successors on a core, by how often it executes each instruction.

    A branch whose body is executed as often as the code around it always continues there, and one
    whose body is never executed always jumps.
    """
    graph = successors(content, constants)
    _Pruning(content.code, executions, graph).prune(0, len(content.code), 1)
    return graph


class _Pruning:
    """Removes the edges of branches that a core does not take."""

    def __init__(
        self, code: Sequence[Instruction], executions: Mapping[int, int], graph: Graph
    ) -> None:
        self._code = code
        self._executions = executions
        self._graph = graph

    def prune(self, begin: int, end: int, times: int | None) -> None:
        """Prune instructions [begin, end), which are executed so often; None if unknown."""
        index = begin
        while index < end:
            instruction = self._code[index]
            if isinstance(instruction, LoopBegin):
                body = index + 1, instruction.end
                self.prune(*body, self._times_of_loop(*body))
                index = instruction.end
            elif isinstance(instruction, Branch):
                index = self._prune_branch(index, instruction, times)
                continue
            index += 1

    def _prune_branch(self, index: int, branch: Branch, times: int | None) -> int:
        """Prune a branch and its two bodies; return the index after them."""
        body = range(index + 1, branch.target)
        alternative = range(branch.target, self._end_of_alternative(branch))
        executed = self._times_of(body)
        if executed == 0:
            self._graph[index] = (branch.target,)
        elif executed is not None and executed == times and not self._times_of(alternative):
            self._graph[index] = (index + 1,)
        self.prune(body.start, body.stop, executed)
        self.prune(alternative.start, alternative.stop, self._times_of(alternative))
        return alternative.stop

    def _end_of_alternative(self, branch: Branch) -> int:
        """Return the index after the code that is executed if the branch jumps."""
        last = self._code[branch.target - 1]
        if isinstance(last, Jump):
            return max(last.target, branch.target)
        return branch.target

    def _times_of(self, body: range) -> int | None:
        """Return how often the body of a branch is executed; None if nothing in it is counted."""
        return max(
            (self._executions.get(at, 0) for at in body if self._is_counted(at)), default=None
        )

    def _times_of_loop(self, begin: int, end: int) -> int | None:
        """Return how often a loop's body is executed, from its instructions outside of branches."""
        times: int | None = None
        index = begin
        while index < end:
            instruction = self._code[index]
            if isinstance(instruction, Branch):
                index = self._end_of_alternative(instruction)
                continue
            if isinstance(instruction, LoopBegin):
                index = instruction.end
            elif self._is_counted(index):
                times = max(times or 0, self._executions.get(index, 0))
            index += 1
        return times

    def _is_counted(self, index: int) -> bool:
        return is_counted(self._code[index])
