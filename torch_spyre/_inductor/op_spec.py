"""What a kernel computes: a list of `OpSpec`s, with `LoopSpec`s around those that repeat.

An `OpSpec` is one operation of the hardware over an iteration space that is divided over cores.
Everything after it (KTIR, SuperDSC) is derived from these records alone, and the text of generated
wrappers rebuilds them: their `repr` is Python source.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy
import torch  # noqa: F401  # its libraries are those that _C needs

from torch_spyre._C import DataFormats

_NAME = re.compile(r"[A-Za-z_]\w*")


class IndirectAccess(sympy.Function):  # type: ignore[misc]  # sympy has no types
    """In a coordinate: the value of an index tensor (named) at the current point.

    A number may follow the name: there are so many places to choose from, fewer than the device
    dim has. Others belong to somebody else, or are padding.
    """

    @property
    def tensor(self) -> str:
        return str(self.args[0])

    @property
    def choices(self) -> int | None:
        return int(self.args[1]) if len(self.args) > 1 else None


@lru_cache(maxsize=4096)
def sympify(text: str) -> sympy.Expr:
    """sympy's, made quick for what specs hold: names, numbers, and texts seen before."""
    if _NAME.fullmatch(text):
        return sympy.Symbol(text, integer=True)
    if text.isdigit():
        return sympy.Integer(text)
    names = {name: sympy.Symbol(name, integer=True) for name in _NAME.findall(text)}
    known = {"floor": sympy.floor, "Mod": sympy.Mod, "IndirectAccess": IndirectAccess}
    return sympy.sympify(text, locals=names | known)


@dataclass(frozen=True)
class TensorArg:
    """A tensor of an op: where it is, and which element of it belongs to a point of the space."""

    is_input: bool
    # Position among the kernel's arguments; -1 for what lies in the scratchpad or the pool.
    arg_index: int
    device_dtype: DataFormats
    device_size: Sequence[int]
    device_coordinates: Sequence[sympy.Expr]
    # One of hbm, pool, lx: bytes from the start of that memory.
    allocation: Mapping[str, int]
    # Host elements from one index of a device dim to the next; -1 where the dim is made up.
    stride_map: Sequence[int] | None = None
    per_tile_fixed: bool = False
    # Of the buffer, for tensors that other specs of the kernel refer to.
    name: str | None = None

    def __hash__(self) -> int:
        return hash((self.arg_index, self.name, tuple(self.device_coordinates)))

    @property
    def elements_per_stick(self) -> int:
        return self.device_size[-1]

    @property
    def in_scratchpad(self) -> bool:
        return "lx" in self.allocation

    def __repr__(self) -> str:
        coordinates = ", ".join(_expression(each) for each in self.device_coordinates)
        stride_map = None if self.stride_map is None else list(self.stride_map)
        return (
            f"TensorArg(is_input={self.is_input}, arg_index={self.arg_index}, "
            f"device_dtype=DataFormats.{self.device_dtype.name}, "
            f"device_size={list(self.device_size)}, device_coordinates=[{coordinates}], "
            f"allocation={dict(self.allocation)}, stride_map={stride_map}"
            + (", per_tile_fixed=True" if self.per_tile_fixed else "")
            + (f", name={self.name!r}" if self.name else "")
            + ")"
        )


@dataclass(frozen=True)
class OpSpec:
    """One operation over a divided iteration space."""

    op: str
    is_reduction: bool
    # Symbol -> (size, cores that share it). Output dims first, reduction dims last.
    iteration_space: Mapping[sympy.Symbol, tuple[sympy.Expr, int]]
    # Index tensors, inputs, the output last.
    args: Sequence[TensorArg]
    op_info: Mapping[str, Any] = field(default_factory=dict)
    # Divided by enclosing loops, outermost first.
    tiled_symbols: Sequence[sympy.Symbol] = ()

    @property
    def index_args(self) -> Sequence[TensorArg]:
        """The tensors that only say where others are read or written. They come first."""
        names = {name for arg in self.args for name in index_names(arg)}
        return self.args[: len(names)]

    @property
    def operands(self) -> Sequence[TensorArg]:
        """The inputs that are computed with."""
        return [arg for arg in self.args[len(self.index_args) :] if arg.is_input]

    @property
    def inputs(self) -> Sequence[TensorArg]:
        return [arg for arg in self.args if arg.is_input]

    @property
    def output(self) -> TensorArg:
        return self.args[-1]

    @property
    def cores(self) -> int:
        used = 1
        for _, split in self.iteration_space.values():
            used *= split
        return used

    @property
    def sizes(self) -> dict[sympy.Symbol, int]:
        return {symbol: int(size) for symbol, (size, _) in self.iteration_space.items()}

    @property
    def splits(self) -> dict[sympy.Symbol, int]:
        return {symbol: split for symbol, (_, split) in self.iteration_space.items()}

    @property
    def constants(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.op_info.get("constants", {})
        return found

    def __repr__(self) -> str:
        space = ", ".join(
            f"{_expression(symbol)}: ({_expression(size)}, {split})"
            for symbol, (size, split) in self.iteration_space.items()
        )
        args = ", ".join(repr(arg) for arg in self.args)
        tiled = ", ".join(_expression(symbol) for symbol in self.tiled_symbols)
        return (
            f"OpSpec(op={self.op!r}, is_reduction={self.is_reduction}, "
            f"iteration_space={{{space}}}, op_info={dict(self.op_info)!r}, args=[{args}]"
            + (f", tiled_symbols=[{tiled}]" if tiled else "")
            + ")"
        )


@dataclass(frozen=True)
class UnimplementedOp:
    """An op that the card cannot do: the kernel that holds it raises when it is run."""

    op: str


@dataclass(frozen=True)
class LoopSpec:
    """Specs that are repeated, each time on the next part of their tiled symbols."""

    count: sympy.Expr
    body: Sequence["Spec"]
    tiled_symbols: Sequence[sympy.Symbol] = ()

    def __repr__(self) -> str:
        tiled = ", ".join(_expression(symbol) for symbol in self.tiled_symbols)
        body = ", ".join(repr(spec) for spec in self.body)
        return f"LoopSpec(count={_expression(self.count)}, body=[{body}], tiled_symbols=[{tiled}])"


Spec = OpSpec | LoopSpec | UnimplementedOp


def flat(specs: Sequence[Spec]) -> Iterator[OpSpec | UnimplementedOp]:
    """Every op, depth first."""
    for spec in specs:
        if isinstance(spec, LoopSpec):
            yield from flat(spec.body)
        else:
            yield spec


def index_names(arg: TensorArg) -> list[str]:
    """The index tensors that say where this one is read."""
    return [name for coordinate in arg.device_coordinates for name in _indices_in(coordinate)]


# Every part of the compiler asks, and most coordinates are alike.
@lru_cache(maxsize=4096)
def _indices_in(coordinate: sympy.Expr | int) -> tuple[str, ...]:
    return tuple(found.tensor for found in sympy.sympify(coordinate).atoms(IndirectAccess))


def _expression(value: sympy.Expr | int) -> str:
    return f"sympify({str(value)!r})"
