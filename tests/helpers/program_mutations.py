"""A program with every instruction, and random mutations of the bytes of programs."""

import dataclasses
import random

from program_builder import ProgramBuilder

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, NO_REGISTER, ElementType

F16, F32, I1, I32, I64 = (
    ElementType.F16,
    ElementType.F32,
    ElementType.I1,
    ElementType.I32,
    ElementType.I64,
)


def every_instruction() -> ProgramBuilder:
    """A valid program with each instruction, and each kind of operand, at least once."""
    build = ProgramBuilder((2, 2), "everything")
    build.channels = 2
    build.tables.append(((1, 2), (3,), (), (4, 5, 6)))
    build.fixed_buffers.append(ins.FixedBuffer("%fixed", 1 << 20, 512, F32, (4, 32)))
    array, indices = build.argument(F16), build.argument(I32)
    build.argument(I64, is_array=False)
    zero, one = build.all_constants([0, 1])
    tile, sums = build.tensor(F16, 4, 8), build.tensor(F32, 4)
    view = build.view(array, F16, [16, 8])
    parts = [build.view(array, F16, [8, 8], lower=[low, 0]) for low in (0, 8)]
    loop = build.emit(ins.LoopBegin, build.register(), zero, build.constant(2), one, 0)
    condition = build.scalar("cmpi_eq", I64, CORE_REGISTER, one, result=I1)
    build.emit(ins.Branch, condition, loop + 4)
    build.emit(ins.Jump, loop + 4)
    build.transfer(tile, [4, 8], [one, zero], view, store=False)
    build.transfer(tile, [4, 8], [zero, zero], *parts, store=False)
    listed = dataclasses.replace(tile, strides=(1,))
    build.transfer(listed, [2], [zero, zero], view, store=True, points=(0, 0, 1, 1))
    variable = (ins.Term(ins.TermKind.VARIABLE, 0),)
    row = ins.Subscript(True, (variable,), build.view(indices, I32, [4]))
    halved = (ins.Term(ins.TermKind.CONSTANT, 2), ins.Term(ins.TermKind.FLOOR_DIVIDE))
    column = ins.Subscript(False, ((ins.Term(ins.TermKind.VARIABLE, 1), *halved),), view)
    space = build.all_constants([4, 8])
    build.emit(ins.IndirectTransfer, False, tile, space, view, (row, column), ())
    scalar = ins.Input(ins.InputKind.SCALAR, tile, F16, build.constant(0x3F800000))
    index = ins.Input(ins.InputKind.INDEX, tile, I64, NO_REGISTER, 1)
    operand = ins.Input(ins.InputKind.OPERAND, tile, F16)
    lookup = ins.Lookup(listed, build.all_constants([32]))
    steps = (
        ins.ChainStep(-1, "mulf", F16, F16, (0, 1)),
        ins.ChainStep(0, "", F16, F16, (2,)),
        ins.ChainStep(-1, "cmpf_olt", F16, I1, (3, 4)),
        ins.ChainStep(-1, "select", F16, F16, (5, 3, 4)),
    )
    chain = (space, (operand, scalar, index), steps, (lookup,))
    build.emit(ins.Chain, *chain, (ins.ChainOutput(6, tile),))
    reduced = dataclasses.replace(sums, strides=(1, 0))
    build.emit(ins.Reduce, *chain, (1,), (6,), "addf", (), (), (reduced,), (reduced,))
    combiner = (ins.ChainStep(-1, "maximumf", F16, F16, (0, 1)),)
    half = dataclasses.replace(sums, type=F16, strides=(1, 0))
    build.emit(ins.Reduce, *chain, (1,), (6,), "", combiner, (2,), (), (half,))
    sizes = build.all_constants([1, 4, 4, 8])
    a = dataclasses.replace(tile, strides=(0, 8, 1))
    b = dataclasses.replace(tile, strides=(0, 1, 8))
    product = build.tensor(F32, 1, 4, 4)
    build.emit(ins.Matmul, *sizes, a, b, True, product, product)
    copied = build.tensor(F16, 4, 8)
    build.emit(ins.Copy, space, tile, copied)
    published = ins.PublishedTile(tile.address, tile.bytes)
    build.emit(ins.Publish, 1, (published, published))
    build.emit(ins.Receive, 1, 1, CORE_REGISTER, zero, (8, 1), copied, space)
    build.emit(ins.Delivered, 1, ins.DeliveryKind.GATHER, 4, tile.bytes)
    build.emit(ins.TableLookup, build.register(), 0, NO_REGISTER)
    build.emit(ins.Extract, build.register(), tile, (zero, one), space)
    build.emit(ins.Move, build.register(), CORE_REGISTER)
    ordered, order = build.tensor(F16, 4, 8), build.tensor(I32, 4, 8)
    kept = build.constant(4)
    build.emit(ins.Sort, space, kept, kept, 2, True, tile, order, ordered, order)
    chosen, rows = build.tensor(I32, 4, 8), build.tensor(F32, 2, 8)
    moved = dataclasses.replace(rows, strides=(0, 1))
    window = (zero, build.constant(2), build.constant(4), (zero, zero))
    build.emit(ins.Indexed, True, "addf", space, chosen, tile, moved, 8, *window)
    table = dataclasses.replace(moved, type=F16)
    build.emit(ins.Indexed, False, "", space, chosen, tile, table, 8, *window)
    build.emit(ins.Literal, listed, (0x3F800000, 0, 0x40000000))
    build.end_loop(loop)
    return build


def mutated(payload: bytes, random: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        place = random.randrange(len(data)) if data else 0
        match random.randrange(6):
            case 0:
                data[place:place] = bytes([random.randrange(256)])
            case 1:
                del data[place : place + random.choice((1, 1, 2, 10))]
            case 2:
                other = random.randrange(len(data)) if data else 0
                data[place:place] = data[other : other + random.randrange(16)]
            case 3 if data:
                data[place] ^= 1 << random.randrange(8)
            case 4:
                data[place : place + 1] = b"\xff" * random.choice((1, 5, 9)) + b"\x01"
            case _ if data:
                data[place] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return bytes(data)
