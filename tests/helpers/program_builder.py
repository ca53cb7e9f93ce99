"""A builder of device programs for tests of the engine."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from torch_spyre import _C
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.encoding import encode
from torch_spyre.backend.program.instructions import NO_REGISTER, ElementType, Operand

ALIGNMENT = 128


def row_major(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(extents[d + 1 :]) for d in range(len(extents)))


class ProgramBuilder:
    def __init__(self, grid: tuple[int, ...] = (1,), name: str = "kernel") -> None:
        self.name = name
        self.grid = grid
        self.registers = ins.FIRST_FREE_REGISTER
        self.constants: dict[int, int] = {}
        self.arguments: list[ins.Argument] = []
        self.fixed_buffers: list[ins.FixedBuffer] = []
        self.scratchpad_bytes = 0
        self.channels = 0
        self.tables: list[tuple[tuple[int, ...], ...]] = []
        self.code: list[ins.Instruction] = []

    def register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def constant(self, value: int) -> int:
        if value not in self.constants:
            self.constants[value] = self.register()
        return self.constants[value]

    def all_constants(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.constant(value) for value in values)

    def argument(self, type: ElementType, is_array: bool = True) -> int:
        destination = self.register()
        name = f"argument{len(self.arguments)}"
        self.arguments.append(ins.Argument(name, is_array, destination, type))
        return destination

    def tensor(self, type: ElementType, *extents: int) -> Operand:
        """Allocate scratchpad memory for a row-major tensor."""
        address = -(-self.scratchpad_bytes // ALIGNMENT) * ALIGNMENT
        count = math.prod(extents) * type.bytes
        self.scratchpad_bytes = address + count
        return Operand(address, count, type, NO_REGISTER, row_major(extents))

    def view(
        self,
        base: int,
        type: ElementType,
        extents: Sequence[int],
        strides: Sequence[int] | None = None,
        lower: Sequence[int] = (),
        space: ins.Space = ins.Space.GLOBAL,
        core: int = NO_REGISTER,
    ) -> ins.View:
        """Return a view at the address in register `base`; all other fields are constants."""
        return ins.View(
            space,
            type,
            core,
            base,
            self.all_constants(row_major(extents) if strides is None else strides),
            self.all_constants(lower),
            self.all_constants(extents),
        )

    def emit(self, kind: type[ins.Instruction], *fields: object) -> int:
        """Append an instruction and return its index."""
        make: type = kind
        self.code.append(make(len(self.code), *fields))
        return len(self.code) - 1

    def end_loop(self, begin: int) -> int:
        """End the loop whose LoopBegin has the index `begin`."""
        end = self.emit(ins.LoopEnd, begin)
        loop = self.code[begin]
        assert isinstance(loop, ins.LoopBegin)
        self.code[begin] = replace(loop, end=end)
        return end

    def transfer(
        self,
        tile: Operand,
        extents: Sequence[int],
        anchor: Sequence[int],
        *views: ins.View,
        store: bool,
        points: tuple[int, ...] = (),
    ) -> None:
        """Append a transfer of a tile; `anchor` holds registers."""
        self.emit(
            ins.Transfer, store, tile, self.all_constants(extents), tuple(anchor), views, points
        )

    def scalar(
        self, op: str, type: ElementType, *inputs: int, result: ElementType | None = None
    ) -> int:
        destination = self.register()
        self.emit(ins.Scalar, op, type, type if result is None else result, destination, inputs)
        return destination

    def elementwise(
        self, op: str, extents: Sequence[int], output: Operand, *inputs: Operand
    ) -> None:
        step = ins.ChainStep(-1, op, inputs[0].type, output.type, tuple(range(len(inputs))))
        chain_inputs = tuple(
            ins.Input(ins.InputKind.OPERAND, operand, operand.type) for operand in inputs
        )
        outputs = (ins.ChainOutput(len(inputs), output),)
        self.emit(ins.Chain, self.all_constants(extents), chain_inputs, (step,), (), outputs)

    def content(self) -> ins.ProgramContent:
        return ins.ProgramContent(
            name=self.name,
            grid=self.grid,
            registers=self.registers,
            constants=tuple(
                ins.Constant(register, value) for value, register in self.constants.items()
            ),
            arguments=tuple(self.arguments),
            fixed_buffers=tuple(self.fixed_buffers),
            scratchpad_bytes=self.scratchpad_bytes,
            channels=self.channels,
            tables=tuple(self.tables),
            locations=tuple(
                ins.SourceLocation(f"test.{instruction.mnemonic}", index + 1, 3)
                for index, instruction in enumerate(self.code)
            ),
            code=tuple(self.code),
        )

    def load(self) -> _C.LoadedProgram:
        return _C.load_program(encode(self.content()), 0)


def run(
    program: "ProgramBuilder | _C.LoadedProgram",
    *arrays: torch.Tensor,
    scalars: Sequence[int] = (),
    fixed: Sequence[torch.Tensor] = (),
    array_bytes: Sequence[int] | None = None,
    cost: tuple[int, int, int] = (0, 0, 0),
    execute: bool = True,
    ordered: bool = False,
    inject: str = "",
    watchdog_seconds: float = 60,
    wait: bool = True,
) -> None:
    """Launch on 1-d tensors, whose device layout is contiguous in memory."""
    loaded = program.load() if isinstance(program, ProgramBuilder) else program
    if array_bytes is None:
        array_bytes = [array.numel() * array.itemsize for array in arrays]
    _C.launch_program(
        loaded,
        list(arrays),
        list(array_bytes),
        list(scalars),
        list(fixed),
        _C.LaunchCost(*cost),
        execute=execute,
        ordered=ordered,
        inject=inject,
        watchdog_seconds=watchdog_seconds,
        check_counts=True,
    )
    if wait:
        torch.spyre.synchronize()
