"""The successors of instructions: where the control flow of a program may continue."""

from collections.abc import Mapping

from torch_spyre.backend.program.instructions import (
    Branch,
    Jump,
    LoopBegin,
    LoopEnd,
    ProgramContent,
)


def successors(content: ProgramContent, constants: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Return for each instruction those that may be executed next.

    The end of the program is the number of its instructions. `constants` are the registers with
    known values: a loop whose bounds they hold is entered, and repeated, only if it has trips.
    """
    graph: list[tuple[int, ...]] = []
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
