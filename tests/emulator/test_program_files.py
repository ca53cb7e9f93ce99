"""The engine rejects invalid program files."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program_builder import ProgramBuilder
from program_mutations import every_instruction, mutated

from torch_spyre import _C
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.encoding import HEADER_BYTES, decode, encode, header
from torch_spyre.backend.program.instructions import CORE_REGISTER, ElementType

CORE_TEST_PROGRAM = Path(__file__).parents[1] / "cpp/every_instruction.program"
F16, F32, I1, I32, I64 = (
    ElementType.F16,
    ElementType.F32,
    ElementType.I1,
    ElementType.I32,
    ElementType.I64,
)


def load(file: bytes) -> _C.LoadedProgram:
    return _C.load_program(file, 0)


def fuzz(rounds: int, seed: int) -> int:
    """Loads mutated files whose hash is right; returns how many were accepted."""
    chance = random.Random(seed)
    payload = encode(every_instruction().content())[HEADER_BYTES:]
    accepted = 0
    for _ in range(rounds):
        changed = mutated(payload, chance)
        try:
            load(header(changed) + changed)
            accepted += 1
        except ValueError as error:
            assert "device program: " in str(error)
    return accepted


def test_every_instruction_has_a_reader_and_a_test() -> None:
    build = every_instruction()
    assert {type(actual) for actual in build.code} == set(ins.INSTRUCTIONS.values())
    program = build.load()
    assert (program.name, program.cores, program.card) == ("everything", 4, 0)
    assert decode(encode(build.content())) == build.content()


def test_the_core_tests_fuzz_the_same_program() -> None:
    assert CORE_TEST_PROGRAM.read_bytes() == encode(every_instruction().content()), (
        f"write it again: PYTHONPATH=tests/helpers python {Path(__file__).name}"
    )


def test_mutated_files_are_rejected_or_valid() -> None:
    accepted = fuzz(2000, seed=1)
    assert 0 < accepted < 2000


@pytest.mark.heavy
def test_many_mutated_files_are_rejected_or_valid() -> None:
    for seed in range(2, 12):
        fuzz(10_000, seed)


def test_damaged_files_are_rejected() -> None:
    file = encode(every_instruction().content())
    chance = random.Random(0)
    for _ in range(200):
        place = chance.randrange(len(file))
        with pytest.raises(ValueError, match="device program"):
            load(file[:place] + bytes([file[place] ^ 1 << chance.randrange(8)]) + file[place + 1 :])
    for length in (0, 1, 8, HEADER_BYTES - 1, HEADER_BYTES, len(file) - 1):
        with pytest.raises(ValueError, match="device program"):
            load(file[:length])
    with pytest.raises(ValueError, match="something after its end"):
        load(file + b"\0")


def test_another_version_is_rejected() -> None:
    file = bytearray(encode(every_instruction().content()))
    file[8] = 200
    with pytest.raises(
        ValueError, match="version 200; this is version 2. Compile the kernel again"
    ):
        load(bytes(file))


def changed(kind: type[ins.Instruction], **changes: Any) -> ins.ProgramContent:
    """The program with every instruction of a kind changed."""
    content = every_instruction().content()
    code = tuple(
        dataclasses.replace(actual, **changes) if type(actual) is kind else actual
        for actual in content.code
    )
    return dataclasses.replace(content, code=code)


def changed_field(
    kind: type[ins.Instruction], name: str, change: Callable[[Any], Any]
) -> ins.ProgramContent:
    content = every_instruction().content()

    def with_change(instruction: ins.Instruction) -> ins.Instruction:
        changes: dict[str, Any] = {name: change(getattr(instruction, name))}
        return dataclasses.replace(instruction, **changes)

    code = tuple(
        with_change(instruction) if type(instruction) is kind else instruction
        for instruction in content.code
    )
    return dataclasses.replace(content, code=code)


def with_op(op: str) -> Callable[[tuple[ins.ChainStep, ...]], tuple[ins.ChainStep, ...]]:
    return lambda steps: (dataclasses.replace(steps[0], op=op), *steps[1:])


def with_inputs(*inputs: int) -> Callable[[tuple[ins.ChainStep, ...]], tuple[ins.ChainStep, ...]]:
    return lambda steps: (*steps[:-1], dataclasses.replace(steps[-1], inputs=inputs))


def nothing(_: object) -> tuple[()]:
    return ()


REFUSED = [
    (lambda: changed(ins.Move, destination=999), "no such register"),
    (lambda: changed(ins.Move, destination=CORE_REGISTER), "that the engine fills"),
    (lambda: changed(ins.Move, source=-1), "no such register"),
    (lambda: changed(ins.Move, location=500), "its source location is missing"),
    (lambda: changed(ins.Scalar, op="no_such_op"), "no vector instruction is called 'no_such_op'"),
    (lambda: changed(ins.Scalar, op="addf"), "there is no addf from i64 to i1"),
    (lambda: changed(ins.Scalar, inputs=(0,)), "cmpi_eq takes 2 inputs, not 1"),
    (lambda: changed_field(ins.Chain, "steps", with_op("gulp")), "called 'gulp'"),
    (lambda: changed_field(ins.Chain, "steps", with_inputs(5, 3, 6)), "before its use"),
    (lambda: changed_field(ins.Chain, "steps", with_inputs(3, 3, 4)), "a mask is not i1"),
    (lambda: changed_field(ins.Chain, "steps", with_inputs(5, 3, 2)), "i64 is used as f16"),
    (lambda: changed_field(ins.Chain, "lookups", nothing), "no such lookup"),
    (lambda: changed_field(ins.Chain, "extents", nothing), "ranks do not agree"),
    (lambda: changed(ins.Reduce, combine="addi"), "no reduction addi of f16"),
    (lambda: changed(ins.Reduce, combine="maxui"), "no reduction maxui of f16"),
    (lambda: changed(ins.Reduce, combine="subf"), "no reduction is called 'subf'"),
    (lambda: changed(ins.Reduce, reduced=(1, 1)), "not ascending"),
    (lambda: changed(ins.Indexed, origin=()), "ranks do not agree"),
    (lambda: changed(ins.Indexed, combine="addf"), "a gather combines elements"),
    (lambda: changed(ins.Indexed, scatter=True, combine="addi"), "no reduction addi of f32"),
    (lambda: changed(ins.Indexed, combine=""), "a table and its tile have different types"),
    (lambda: changed(ins.Indexed, step=-1), "step is a negative size"),
    (lambda: changed(ins.Reduce, reduced=(0,)), "a reduced dimension has a stride"),
    (lambda: changed(ins.Reduce, outputs=()), "an output for each value"),
    (lambda: changed(ins.LoopEnd, begin=3), "loops do not nest"),
    (lambda: changed(ins.LoopBegin, end=2), "a loop has no end"),
    (lambda: changed(ins.Jump, target=0), "does not go forward"),
    (lambda: changed(ins.Branch, target=1000), "does not go forward"),
    (lambda: changed(ins.Transfer, views=()), "has no view"),
    (lambda: changed(ins.Transfer, anchor=(0,)), "ranks do not agree"),
    (lambda: changed(ins.IndirectTransfer, subscripts=()), "ranks do not agree"),
    (lambda: changed(ins.Publish, channel=2), "no such channel"),
    (lambda: changed(ins.Receive, role=2), "no such role"),
    (lambda: changed(ins.Receive, source_strides=()), "ranks do not agree"),
    (lambda: changed(ins.Delivered, cores=-1), "negative size"),
    (lambda: changed(ins.TableLookup, table=1), "no such table"),
    (lambda: changed_field(ins.Publish, "tiles", nothing), "no such role"),
    (lambda: changed(ins.Sort, extents=()), "a sort has no dimension"),
    (lambda: changed(ins.Sort, run=0), "runs without elements"),
    (
        lambda: changed_field(ins.Sort, "keys", lambda s: dataclasses.replace(s, type=I32)),
        "changes the type of the keys",
    ),
    (
        lambda: changed_field(ins.Sort, "indices", lambda s: dataclasses.replace(s, type=I64)),
        "indices that are not i32",
    ),
    (lambda: changed(ins.Literal, values=(0,) * 33), "a literal does not fit its buffer"),
    (
        lambda: changed_field(ins.Copy, "source", lambda s: dataclasses.replace(s, type=I32)),
        "a copy changes the type",
    ),
    (
        lambda: changed_field(ins.Copy, "source", lambda s: dataclasses.replace(s, address=-2)),
        "a buffer lies outside the scratchpad",
    ),
    (
        lambda: changed_field(ins.Copy, "source", lambda s: dataclasses.replace(s, bytes=1 << 40)),
        "a buffer lies outside the scratchpad",
    ),
    (
        lambda: changed_field(ins.Matmul, "a", lambda a: dataclasses.replace(a, type=I32)),
        "mixes floats and integers",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_invalid_instructions_are_rejected(
    make: Callable[[], ins.ProgramContent], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(encode(make()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (0,)}, "grid extent"),
        ({"grid": (1024, 2)}, "more than 1024 cores"),
        ({"grid": (1, 1, 1, 1)}, "longer than the 3"),
        ({"registers": 1 << 30}, "number of registers"),
        ({"channels": -1}, "number of channels"),
        ({"scratchpad_bytes": (2 << 20) + 1}, "bytes of a scratchpad of 2097152"),
        ({"scratchpad_bytes": 8}, "outside the scratchpad"),
        ({"tables": (((),),)}, "one list for each core"),
        ({"constants": (ins.Constant(1, 0),)}, "that the engine fills"),
        ({"code": every_instruction().content().code[:-1]}, "a loop has no end"),
        ({"fixed_buffers": (ins.FixedBuffer("f", 0, 9, F32, ()),) * 2}, "fixed buffers overlap"),
        ({"fixed_buffers": (ins.FixedBuffer("f", -1, 9, F32, ()),)}, "outside the address space"),
    ],
)
def test_invalid_headers_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(encode(dataclasses.replace(every_instruction().content(), **changes)))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ((), "malformed"),
        (((3, 0),), "malformed"),
        (((0, 1), (0, 1)), "malformed"),
        (((0, 1),) * 33 + ((3, 0),) * 32, "too deep"),
        (((2, 2),), "no such variable"),
        (((1, 10_000),), "no such register"),
    ],
)
def test_malformed_expressions_are_rejected(
    terms: tuple[tuple[int, int], ...], message: str
) -> None:
    expression = tuple(ins.Term(ins.TermKind(kind), value) for kind, value in terms)

    def change(subscripts: tuple[ins.Subscript, ...]) -> tuple[ins.Subscript, ...]:
        return (dataclasses.replace(subscripts[0], expressions=(expression,)), *subscripts[1:])

    with pytest.raises(ValueError, match=message):
        load(encode(changed_field(ins.IndirectTransfer, "subscripts", change)))


def test_jump_into_or_out_of_a_loop_is_rejected() -> None:
    for start, target in ((0, 2), (2, 4)):
        build = ProgramBuilder()
        bounds = build.all_constants([0, 1, 1])
        moves = [build.register() for _ in range(2)]
        if start == 0:
            build.emit(ins.Jump, target)
        loop = build.emit(ins.LoopBegin, build.register(), *bounds, 0)
        build.emit(ins.Move, moves[0], 0)
        if start == 2:
            build.emit(ins.Jump, target)
        build.end_loop(loop)
        build.emit(ins.Move, moves[1], 0)
        with pytest.raises(ValueError, match="leaves or enters a loop"):
            build.load()


if __name__ == "__main__":
    CORE_TEST_PROGRAM.write_bytes(encode(every_instruction().content()))
