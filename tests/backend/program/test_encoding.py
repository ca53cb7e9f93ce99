"""Program files: any content round-trips, and any other file raises a clear error."""

import dataclasses

import pytest
from compiling import compiled
from hypothesis import given
from hypothesis import strategies as st
from random_programs import contents, values_of

from torch_spyre.backend.program import encoding
from torch_spyre.backend.program.encoding import HEADER_BYTES, Reader, decode, encode
from torch_spyre.backend.program.instructions import (
    INSTRUCTIONS,
    ElementType,
    Jump,
    Move,
    Operand,
    ProgramContent,
    Scalar,
)
from torch_spyre.backend.program.program import Program
from torch_spyre.errors import ProgramError

EMPTY = ProgramContent("f", (1, 1, 1), 4, (), (), (), 0, 0, (), ())


def with_payload(payload):
    return encoding.header(payload) + bytes(payload)


def payload_with(code):
    """The payload of a program without instructions, with these bytes as its list of them."""
    payload = encode(EMPTY)[HEADER_BYTES:]
    assert payload.endswith(b"\0")  # the number of instructions
    return payload[:-1] + code


@given(contents())
def test_encoding_round_trips(content):
    assert decode(encode(content)) == content


@pytest.mark.parametrize("kind", INSTRUCTIONS.values(), ids=lambda kind: kind.__name__)
@given(st.data())
def test_every_instruction_round_trips(kind, data):
    content = dataclasses.replace(EMPTY, code=(data.draw(values_of(kind)),))
    assert decode(encode(content)) == content


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_of_64_bits_round_trip(value):
    content = dataclasses.replace(EMPTY, code=(Jump(0, value),))
    assert decode(encode(content)).code[0].target == value


def test_equal_programs_have_equal_bytes():
    text = "func.func @f(%n: index) {\n%a = arith.addi %n, %n : index\nreturn\n}"
    assert encode(compiled(text)) == encode(compiled(text))


@given(contents(), st.data())
def test_a_damaged_byte_is_detected(content, data):
    file = encode(content)
    position = data.draw(st.integers(0, len(file) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = file[:position] + bytes([file[position] ^ change]) + file[position + 1 :]
    with pytest.raises(ProgramError):
        decode(damaged)


@given(contents(), st.data())
def test_a_truncated_file_is_detected(content, data):
    file = encode(content)
    with pytest.raises(ProgramError):
        decode(file[: data.draw(st.integers(0, len(file) - 1))])


@given(st.binary(max_size=200))
def test_any_payload_is_decoded_or_rejected(payload):
    """Write a file with a valid hash, as an attacker could."""
    try:
        content = decode(with_payload(payload))
    except ProgramError:
        return
    assert isinstance(content, ProgramContent)


MOVE = bytes([2, 2 * Move.opcode])


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "not a program file"),
        (b"PK\3\4" + bytes(100), "not a program file"),
        (encoding.MAGIC + bytes(10), "not a program file"),
        (
            encode(EMPTY)[:8] + b"\7\0\0\0" + encode(EMPTY)[12:],
            "version 7, and this package reads version",
        ),
        (encode(EMPTY)[:-1], "truncated, or has data after its end"),
        (encode(EMPTY) + b"\0", "truncated, or has data after its end"),
        (encode(EMPTY)[:-1] + b"\2", "does not match its hash"),
        (with_payload(payload_with(b"\0\0")), "data after the last instruction"),
        (with_payload(payload_with(b"")), "an integer is truncated or too large"),
        (with_payload(payload_with(MOVE + b"\x80")), "an integer is truncated or too large"),
        (with_payload(payload_with(MOVE + b"\xff" * 10 + b"\1")), "truncated or too large"),
        (with_payload(payload_with(MOVE + b"\xff" * 9 + b"\3\0\0")), "an integer is too large"),
        (with_payload(payload_with(b"\2\xc8\1")), "no instruction has the opcode 100"),
        (with_payload(payload_with(b"\x80\1")), "a list of 64 items does not fit the file"),
        (with_payload(payload_with(b"\1")), "a list of -1 items does not fit the file"),
        (with_payload(b"\4\xff\xfe"), "a text is not UTF-8"),
        (with_payload(b"\6a\0b"), "a text contains the character 0"),
        (with_payload(b"\x80\1a"), "a list of 64 items does not fit the file"),
        (with_payload(payload_with(bytes([2, 2 * Scalar.opcode, 0, 0, 60]))), "30 is not a Elem"),
    ],
)
def test_error_describes_the_problem_of_a_file(file, message):
    with pytest.raises(ProgramError, match=message) as caught:
        decode(file)
    assert str(caught.value).startswith("device program: ")


def test_a_list_cannot_make_the_reader_reserve_more_than_the_file():
    reader = Reader(b"\xfe\xff\xff\xff\x0f")
    with pytest.raises(ProgramError, match="does not fit the file"):
        reader.length()


def test_a_saved_program_is_loaded_again(tmp_path):
    program = Program.from_content(compiled("func.func @f(%n: index) {\nreturn\n}"))
    path = tmp_path / "f.prg"
    program.save(path)
    assert Program.load(path) == program
    assert [path.name for path in tmp_path.iterdir()] == ["f.prg"]


def test_a_file_that_is_no_program_is_not_loaded(tmp_path):
    path = tmp_path / "f.prg"
    with pytest.raises(ProgramError, match="cannot read"):
        Program.load(path)
    path.write_bytes(encode(EMPTY)[:-1] + b"\7")
    with pytest.raises(ProgramError, match="does not match its hash"):
        Program.load(path)


def test_saving_to_an_invalid_path_raises(tmp_path):
    with pytest.raises(ProgramError, match="cannot write"):
        Program(encode(EMPTY)).save(tmp_path / "missing" / "f.prg")


def test_strides_of_operands_round_trip():
    operand = Operand(128, 64, ElementType.F16, 7, (32, 0, 1))
    content = dataclasses.replace(EMPTY, code=(INSTRUCTIONS[13](0, (4,), operand, operand),))
    assert decode(encode(content)).code[0].source == operand
