"""Locates the op of a kernel whose own result is wrong, by running its ops one at a time.

First each op runs as a kernel of its own, on what the ops before it have computed on the card: an
op that is wrong alone is found whatever else happens. If none is, the kernel runs again up to each
of its ops, with that op's result stored: the first result that is wrong comes from the way in which
the ops are combined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from torch_spyre import _C
from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import IDENTITY
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.verification.comparison import Divergence, check
from torch_spyre._inductor.verification.interpreter import Interpreter
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.value_formats import encode
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import SpyreError

Stages = Sequence[Sequence[OpSpec]]


@dataclass(frozen=True)
class LocatedOp:
    """An op whose result is wrong, and the worst element of it."""

    spec: OpSpec
    stage: int
    position: int
    divergence: Divergence
    # Whether the op is wrong as a kernel of its own.
    is_alone: bool

    @property
    def point(self) -> str:
        """Return the coordinates of the element in the op's iteration space."""
        grid, output = Grid(self.spec.sizes), self.spec.output
        positions = grid.positions(output.device_size, output.device_coordinates, _any_index)
        points = (positions == self.divergence.position).nonzero()
        if not len(points):
            return "an element"
        coordinates = zip(grid.dims, points[0].tolist(), positions.shape, strict=True)
        text = ", ".join(f"{symbol}={value}" for symbol, value, size in coordinates if size > 1)
        return text or "its only element"


def _any_index(access: object) -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64)


def locate(
    name: str, stages: Stages, tensors: Sequence[torch.Tensor], contents: Sequence[torch.Tensor]
) -> LocatedOp | None:
    """Return the first op that is wrong, on arguments with these contents; None if none is."""
    return _OneByOne(name, tensors, contents).locate(stages) or _Prefixes(
        name, tensors, contents
    ).locate(stages)


class _Workspace:
    """Copies of the arguments, and memory for the values that a kernel keeps to itself."""

    def __init__(
        self, name: str, tensors: Sequence[torch.Tensor], contents: Sequence[torch.Tensor]
    ) -> None:
        self.name, self.device = name, tensors[0].device
        copies = {id(content): self._allocate(content.numel()) for content in contents}
        for content in contents:
            _C._set_device_bytes(copies[id(content)], content)
        self.memory: dict[str, torch.Tensor] = {
            f"arg{index}": copies[id(content)] for index, content in enumerate(contents)
        }

    def _allocate(self, num_bytes: int) -> torch.Tensor:
        return torch.empty(num_bytes, dtype=torch.int8, device=self.device)

    def _memory_of(self, key: str, arg: TensorArg) -> torch.Tensor:
        if key not in self.memory:
            num_bytes = BYTES_IN_STICK
            for size in arg.device_size[:-1]:
                num_bytes *= size
            self.memory[key] = self._allocate(num_bytes)
        return self.memory[key]

    def run(self, specs: Sequence[OpSpec], stage: int, *, keeps_scratchpad: bool) -> Memory | None:
        """Run specs as a kernel; return the memory of the last output, with its divergence.

        Values in the scratchpad are in device memory, unless `keeps_scratchpad`. Returns None if
        the specs cannot be a kernel.
        """
        self.arguments: list[torch.Tensor] = []
        keys: dict[str, int] = {}

        def placed(arg: TensorArg) -> TensorArg:
            if arg.in_scratchpad and keeps_scratchpad:
                return arg
            key = f"lx_{stage}_{arg.name}" if arg.in_scratchpad else parameter_name(arg)
            if key not in keys:
                keys[key] = len(self.arguments)
                self.arguments.append(self._memory_of(key, arg))
            return replace(arg, arg_index=keys[key], allocation={"hbm": 0})

        self.specs = [replace(spec, args=[placed(arg) for arg in spec.args]) for spec in specs]
        before = _contents(self.arguments)
        shared = {id(content): Memory(content) for content in before}
        memories = {f"arg{index}": shared[id(content)] for index, content in enumerate(before)}
        Interpreter(memories).run([self.specs])
        result = memories[parameter_name(self.specs[-1].output)]
        try:
            Runner(f"{self.name}_alone", [self.specs]).run(*self.arguments)
        except SpyreError:
            self._write_reference(result)
            return None
        return result

    def divergence(self, result: Memory) -> Divergence | None:
        """Return how the last output differs from its bounds."""
        output = self.arguments[self.specs[-1].output.arg_index]
        return check(result, _C._device_bytes(output)).divergence

    def _write_reference(self, result: Memory) -> None:
        """Give the output of an op that cannot run alone the values of its reference."""
        if result.bounds is None or result.format is None:
            return
        codes = encode(result.bounds.low, result.format).contiguous()
        output = self.arguments[self.specs[-1].output.arg_index]
        _C._set_device_bytes(output, codes.view(torch.uint8))


class _OneByOne(_Workspace):
    def locate(self, stages: Stages) -> LocatedOp | None:
        """Run every op alone; return the first that is wrong."""
        for number, specs in enumerate(stages):
            for position, spec in enumerate(specs):
                result = self.run([spec], number, keeps_scratchpad=False)
                if result is None:
                    continue
                divergence = self.divergence(result)
                if divergence is not None:
                    return LocatedOp(spec, number, position, divergence, is_alone=True)
        return None


class _Prefixes(_Workspace):
    def locate(self, stages: Stages) -> LocatedOp | None:
        """Run the kernel up to each of its ops; return the first op whose result is wrong."""
        for number, specs in enumerate(stages):
            for position, spec in enumerate(specs):
                if not spec.output.in_scratchpad:
                    continue
                prefix = [*specs[: position + 1], _stored(spec)]
                result = self.run(prefix, number, keeps_scratchpad=True)
                divergence = None if result is None else self.divergence(result)
                if divergence is not None:
                    return LocatedOp(spec, number, position, divergence, is_alone=False)
            self.run(specs, number, keeps_scratchpad=True)
        return None


def _stored(spec: OpSpec) -> OpSpec:
    """Return a copy of an op's result from the scratchpad to device memory."""
    value = replace(spec.output, is_input=True)
    symbols = {symbol for index in value.device_coordinates for symbol in index.free_symbols}
    space = {symbol: size for symbol, size in spec.iteration_space.items() if symbol in symbols}
    target = replace(spec.output, allocation={"pool": 0}, name=f"{spec.output.name}_stored")
    return OpSpec(IDENTITY, False, space, [value, target])


def _contents(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    contents = {id(tensor): _C._device_bytes(tensor) for tensor in tensors}
    return [contents[id(tensor)] for tensor in tensors]
