"""The file form of a program.

Integers are zigzag varints (7 bits a byte, low first, top bit: more follows), at most 64 bits. A
tuple is its length and its items; a dataclass is its fields in order; an instruction is its opcode
before that; text is its length in bytes and UTF-8. A header holds magic, version, length and hash.
"""

import dataclasses
import enum
import functools
import hashlib
import typing
from collections.abc import Callable
from typing import Any

from torch_spyre.backend.program.instructions import INSTRUCTIONS, Instruction, ProgramContent
from torch_spyre.errors import ProgramError

MAGIC = b"SPYREPRG"
# Raised with every change of the form or of the meaning of an instruction.
VERSION = 2
HASH_BYTES = 32
HEADER_BYTES = len(MAGIC) + 4 + 8 + HASH_BYTES

Write = Callable[[bytearray, Any], None]
Read = Callable[["Reader"], Any]


def encode(content: ProgramContent) -> bytes:
    """Return the file of a program."""
    payload = bytearray()
    _writer(ProgramContent)(payload, content)
    return header(payload) + bytes(payload)


def header(payload: bytes | bytearray) -> bytes:
    """Return the header of a file with this content."""
    return b"".join(
        (
            MAGIC,
            VERSION.to_bytes(4, "little"),
            len(payload).to_bytes(8, "little"),
            content_hash(payload),
        )
    )


def content_hash(payload: bytes | bytearray) -> bytes:
    return hashlib.sha256(VERSION.to_bytes(4, "little") + payload).digest()


def payload_of(file: bytes) -> bytes:
    """Return the content after the header; raise ProgramError unless it agrees with the header."""
    if len(file) < HEADER_BYTES or not file.startswith(MAGIC):
        raise ProgramError("not a program file")
    version = int.from_bytes(file[8:12], "little")
    if version != VERSION:
        raise ProgramError(
            f"the file has version {version}, and this package reads version {VERSION}; compile "
            "the kernel again"
        )
    payload = file[HEADER_BYTES:]
    if int.from_bytes(file[12:20], "little") != len(payload):
        raise ProgramError("the file is truncated, or has data after its end")
    if file[20:HEADER_BYTES] != content_hash(payload):
        raise ProgramError("the content does not match its hash")
    return payload


def decode(file: bytes) -> ProgramContent:
    """Return the program in a file; the engine checks whether it is valid."""
    payload = payload_of(file)
    reader = Reader(payload)
    content: ProgramContent = _reader(ProgramContent)(reader)
    if reader.position != len(payload):
        raise ProgramError("the file has data after the last instruction")
    return content


class Reader:
    """Reads the integers and texts of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def integer(self) -> int:
        result = shift = 0
        while True:
            if self.position >= len(self.data) or shift > 63:
                raise ProgramError("an integer is truncated or too large")
            byte = self.data[self.position]
            self.position += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if result >= 1 << 64:
            raise ProgramError("an integer is too large")
        return (result >> 1) ^ -(result & 1)

    def length(self) -> int:
        # Every item takes at least a byte, so a length beyond the file is wrong.
        length = self.integer()
        if not 0 <= length <= len(self.data) - self.position:
            raise ProgramError(f"a list of {length} items does not fit the file")
        return length

    def text(self) -> str:
        length = self.length()
        raw = self.data[self.position : self.position + length]
        self.position += length
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProgramError("a text is not UTF-8") from None


def _write_integer(out: bytearray, value: int) -> None:
    remaining = (value << 1) ^ (value >> 63)
    while remaining >= 0x80:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)


def _write_text(out: bytearray, value: str) -> None:
    raw = value.encode()
    _write_integer(out, len(raw))
    out += raw


@functools.cache
def _writer(kind: Any) -> Write:
    if kind is str:
        return _write_text
    if kind is Instruction:
        return _write_instruction
    if typing.get_origin(kind) is tuple:
        item = _writer(typing.get_args(kind)[0])

        def write_tuple(out: bytearray, values: tuple[Any, ...]) -> None:
            _write_integer(out, len(values))
            for value in values:
                item(out, value)

        return write_tuple
    if dataclasses.is_dataclass(kind):
        fields = [(name, _writer(hint)) for name, hint in _fields(kind)]

        def write_fields(out: bytearray, value: Any) -> None:
            for name, write in fields:
                write(out, getattr(value, name))

        return write_fields
    return _write_integer


def _write_instruction(out: bytearray, instruction: Instruction) -> None:
    _write_integer(out, instruction.opcode)
    kind: Any = type(instruction)
    _writer(kind)(out, instruction)


@functools.cache
def _reader(kind: Any) -> Read:
    if kind is str:
        return Reader.text
    if kind is Instruction:
        return _read_instruction
    if typing.get_origin(kind) is tuple:
        item = _reader(typing.get_args(kind)[0])
        return lambda reader: tuple(item(reader) for _ in range(reader.length()))
    if dataclasses.is_dataclass(kind):
        reads = [_reader(hint) for _, hint in _fields(kind)]
        make: Any = kind
        return lambda reader: make(*(read(reader) for read in reads))
    if issubclass(kind, enum.IntEnum):
        return lambda reader: _member(kind, reader.integer())
    if kind is bool:
        return lambda reader: bool(reader.integer())
    return Reader.integer


def _read_instruction(reader: Reader) -> Instruction:
    opcode = reader.integer()
    if opcode not in INSTRUCTIONS:
        raise ProgramError(f"no instruction has the opcode {opcode}")
    kind: Any = INSTRUCTIONS[opcode]
    instruction: Instruction = _reader(kind)(reader)
    return instruction


def _member(kind: type[enum.IntEnum], value: int) -> enum.IntEnum:
    try:
        return kind(value)
    except ValueError:
        raise ProgramError(f"{value} is not a {kind.__name__}") from None


def _fields(kind: Any) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]
