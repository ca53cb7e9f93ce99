"""Device programs: mutated bytes and fields, read by Python and by the card, recorded and run."""

import dataclasses
import enum
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuzz.kind import Content, Kind, Rejected, Violation
from fuzz.kinds.card import Canaries, rejection_of_launch, synchronize
from fuzz.kinds.ktir import corpus
from torch_spyre import _C, ktir
from torch_spyre.backend.program.encoding import HEADER_BYTES, decode, encode, header
from torch_spyre.backend.program.instructions import ProgramContent
from torch_spyre.backend.program.program import Program
from torch_spyre.errors import ProgramError, SpyreError

MAX_FIXED_BYTES = 1 << 20
ARRAY_ELEMENTS = 1024
_LANES = (64, 32)
# Larger than the bits of any positive float32 constant.
LARGE = 0x7F80_0001
_INTEGERS = (0, 1, 2, 3, -1, 7, 64, 65, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 62, (1 << 63) - 1)


@functools.cache
def payloads() -> list[bytes]:
    """Return the content of programs: one with every instruction, and the small kernels."""
    from program_mutations import every_instruction

    files = [encode(every_instruction().content())] * 4
    for lines in corpus():
        module = ktir.load("\n".join(lines) + "\n")
        for name in module.functions:
            try:
                files.append(module.compile(name).file)
            except SpyreError:  # it needs scalars
                continue
    return [file[HEADER_BYTES:] for file in files if len(file) < 3000]


class ProgramKind(Kind):
    """Files of device programs: rejected by the reader, or run within their buffers."""

    name = "programs"
    batch = 500

    def prepare(self) -> None:
        payloads()

    def generate(self, chance: random.Random) -> Content:
        from program_mutations import mutated

        payload = chance.choice(payloads())
        kind = chance.random()
        if kind < 0.5:
            content = decode(header(payload) + payload)
            for _ in range(chance.choice((1, 1, 2, 3))):
                content = with_changed_field(content, chance)
            payload = encode(content)[HEADER_BYTES:]
        else:
            payload = mutated(payload, chance)
        file = header(payload) + payload
        if kind > 0.95:
            file = mutated(file, chance)
        return {"seed": chance.randrange(1 << 30), "file": file.hex()}

    def run(self, content: Content) -> None:
        file, chance = bytes.fromhex(content["file"]), random.Random(content["seed"])
        try:
            loaded = _C.load_program(file, 0)
        except ValueError as error:
            if "device program: " not in str(error):
                raise
            check_python_reader(file)
            raise Rejected(str(error)) from error
        try:
            program = Program(file)
            listing = program.listing()
        except ProgramError as error:
            raise Violation("the card loads what Python rejects", str(error)) from error
        assert listing
        run_program(loaded, program.content, file, chance)

    def smaller(self, content: Content) -> Iterator[Content]:
        """Yield programs with fewer instructions, whose targets may be wrong then."""
        try:
            program = decode(bytes.fromhex(content["file"]))
        except ProgramError:
            return
        for index in reversed(range(len(program.code))):
            code = program.code[:index] + program.code[index + 1 :]
            yield {**content, "file": encode(dataclasses.replace(program, code=code)).hex()}


def check_python_reader(file: bytes) -> None:
    """Read a program that the card has rejected; Python may accept it, or raise ProgramError."""
    try:
        Program(file).listing()
    except ProgramError:
        return


def run_program(
    loaded: "_C.LoadedProgram", content: ProgramContent, file: bytes, chance: random.Random
) -> None:
    """Record and launch a program on small arrays between canaries."""
    arrays, scalars, fixed, canaries = [], [], [], Canaries()
    if sum(buffer.bytes for buffer in content.fixed_buffers) > MAX_FIXED_BYTES:
        raise Rejected("its fixed buffers are too large for a fuzzing run")
    canaries.add()
    for argument in content.arguments:
        if not argument.is_array:
            scalars.append(chance.choice(_INTEGERS))
            continue
        arrays.append(torch.randint(64, (ARRAY_ELEMENTS,), dtype=torch.int32).to("spyre"))
        canaries.add()
    for buffer in content.fixed_buffers:
        fixed.append(torch.zeros(max(buffer.bytes, 4) // 4 + 1, dtype=torch.int32).to("spyre"))
    sizes = [chance.choice((4 * ARRAY_ELEMENTS, 4 * ARRAY_ELEMENTS, 130, 0)) for _ in arrays]
    options: dict[str, Any] = {
        "execute": True, "inject": "", "watchdog_seconds": 1.0, "check_counts": False
    }  # fmt: skip
    try:
        cost, ordered = _C.LaunchCost(0, 0, 0), True
        # The recorder counts some loops trip by trip, and has no time limit.
        if max([*scalars, *(constant.bits for constant in content.constants)], default=0) < LARGE:
            ordered = _C.record_program(file, sizes, scalars, _LANES)["conflict"]
        _C.launch_program(loaded, arrays, sizes, scalars, fixed, cost, ordered=ordered, **options)
        synchronize()
    except Exception as error:
        raise rejection_of_launch(error, content.name) from error
    finally:
        canaries.check()


def with_changed_field(value: Any, chance: random.Random) -> Any:
    """Return a program, or a part of it, with one field or item changed."""
    if isinstance(value, enum.IntEnum):
        return chance.choice(list(type(value)))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = (value + 1, value - 1, 2 * value)
        integer = chance.choice((*near, *_INTEGERS))
        return max(-(1 << 63), min(integer, (1 << 63) - 1))
    if isinstance(value, str):
        return chance.choice(("addf", "cmpi_eq", "", value + value, "é"))
    if isinstance(value, tuple):
        return _with_changed_item(value, chance)
    fields = dataclasses.fields(value)
    # Most fields of a program are its code.
    names = [field.name for field in fields if field.name != "locations"]
    name = "code" if "code" in names and chance.random() < 0.8 else chance.choice(names)
    return dataclasses.replace(value, **{name: with_changed_field(getattr(value, name), chance)})


def _with_changed_item(items: tuple[Any, ...], chance: random.Random) -> tuple[Any, ...]:
    if not items:
        return items
    index, other = chance.randrange(len(items)), chance.randrange(len(items))
    changes: list[Callable[[], tuple[Any, ...]]] = [
        lambda: (*items[:index], *items[index + 1 :]),
        lambda: (*items[:index], items[other], *items[index:]),
        lambda: (*items[:index], items[other], *items[index + 1 :]),
    ]
    if chance.random() < 0.25:
        return chance.choice(changes)()
    return (*items[:index], with_changed_field(items[index], chance), *items[index + 1 :])
