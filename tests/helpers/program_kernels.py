"""Small programs for tests of the engine."""

from dataclasses import replace

import torch
from program_builder import ProgramBuilder

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, ElementType

F32, I32, I64 = ElementType.F32, ElementType.I32, ElementType.I64


def on_card(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to("spyre")


def zeros(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(count, dtype=dtype, device="spyre")


def addition(count: int = 256, cores: int = 4) -> ProgramBuilder:
    """Return a program that computes c = a + b, one slice per core."""
    build = ProgramBuilder((cores,), "add_vectors")
    arrays = [build.argument(F32) for _ in range(3)]
    slice_size = count // cores
    tiles = [build.tensor(F32, slice_size) for _ in range(3)]
    views = [build.view(array, F32, [count]) for array in arrays]
    first = build.scalar("muli", I64, CORE_REGISTER, build.constant(slice_size))
    build.transfer(tiles[0], [slice_size], [first], views[0], store=False)
    build.transfer(tiles[1], [slice_size], [first], views[1], store=False)
    build.elementwise("addf", [slice_size], tiles[2], tiles[0], tiles[1])
    build.transfer(tiles[2], [slice_size], [first], views[2], store=True)
    return build


def copy(count: int, type: ElementType = F32) -> ProgramBuilder:
    """Return a program that copies `count` elements of array 0 to array 1 in one tile."""
    build = ProgramBuilder()
    source, target = build.argument(type), build.argument(type)
    tile = build.tensor(type, count)
    zero = build.constant(0)
    build.transfer(tile, [count], [zero], build.view(source, type, [count]), store=False)
    build.transfer(tile, [count], [zero], build.view(target, type, [count]), store=True)
    return build


def store_scalar(build: ProgramBuilder, array: int, value: int, type: ElementType = I32) -> None:
    """Emit a store of a register to the element of `array` at the index of the core."""
    tile = build.tensor(type, 1)
    scalar = ins.Input(ins.InputKind.SCALAR, replace(tile, strides=()), type, value)
    step = ins.ChainStep(-1, "addi", type, type, (0, 1))
    zero = ins.Input(ins.InputKind.SCALAR, replace(tile, strides=()), type, build.constant(0))
    output = ins.ChainOutput(2, tile)
    build.emit(ins.Chain, (build.constant(1),), (scalar, zero), (step,), (), (output,))
    view = build.view(array, type, [64])
    build.transfer(tile, [1], [CORE_REGISTER], view, store=True)


def loop_sum(lower: int, upper: int, step: int) -> ProgramBuilder:
    build = ProgramBuilder()
    target = build.argument(I32)
    variable, total = build.register(), build.register()
    build.emit(ins.Move, total, build.constant(0))
    bounds = build.all_constants([lower, upper, step])
    begin = build.emit(ins.LoopBegin, variable, *bounds, 0)
    build.emit(ins.Scalar, "addi", I64, I64, total, (total, variable))
    build.end_loop(begin)
    store_scalar(build, target, build.scalar("trunci", I64, total, result=I32))
    return build
