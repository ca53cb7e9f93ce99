"""The specification of a kernel: a list of `OpSpec`s, with `LoopSpec`s around those that repeat.

An `OpSpec` is one operation of the hardware over an iteration space that is divided over cores.
KTIR and SuperDSC are derived from these records alone. Their `repr` is Python source, from which
generated wrappers rebuild them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, TypeVar

import sympy
import torch  # noqa: F401  # loads the libraries that _C needs

from torch_spyre._C import DataFormats
from torch_spyre._inductor.origin import Origin

_NAME = re.compile(r"[A-Za-z_]\w*")


class IndirectAccess(sympy.Function):  # type: ignore[misc]  # sympy has no types
    """In a coordinate: the value of the named index tensor at the current point.

    The second argument, if there is one, is the number of valid indices, where the device dim is
    longer: its other elements are padding, or belong to another tensor.
    """

    @property
    def tensor(self) -> str:
        return str(self.args[0])

    @property
    def choices(self) -> int | None:
        return int(self.args[1]) if len(self.args) > 1 else None


@lru_cache(maxsize=4096)
def sympify(text: str) -> sympy.Expr:
    """Parse an expression as sympy does, but faster for names, integers and repeated texts."""
    if _NAME.fullmatch(text):
        return sympy.Symbol(text, integer=True)
    if text.isdigit():
        return sympy.Integer(text)
    names = {name: sympy.Symbol(name, integer=True) for name in _NAME.findall(text)}
    known = {"floor": sympy.floor, "Mod": sympy.Mod, "IndirectAccess": IndirectAccess}
    return sympy.sympify(text, locals=names | known)


@dataclass(frozen=True)
class TensorArg:
    """A tensor of an op: its memory, and the element that each point of the space accesses."""

    is_input: bool
    # Position among the kernel's arguments; -1 for tensors in the scratchpad or the pool.
    arg_index: int
    device_dtype: DataFormats
    device_size: Sequence[int]
    device_coordinates: Sequence[sympy.Expr]
    # One of hbm, pool, lx: bytes from the start of that memory.
    allocation: Mapping[str, int]
    # Host elements from one index of a device dim to the next; -1 for a synthetic dim.
    stride_map: Sequence[int] | None = None
    per_tile_fixed: bool = False
    # The name of the buffer, by which other specs of the kernel refer to it.
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
        coordinates = ", ".join(map(_expression, self.device_coordinates))
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
    # Symbol -> (size, number of cores it is split over). Output dims first, reduced dims last.
    iteration_space: Mapping[sympy.Symbol, tuple[sympy.Expr, int]]
    # Index tensors, inputs, the output last.
    args: Sequence[TensorArg]
    op_info: Mapping[str, Any] = field(default_factory=dict)
    # Symbols that enclosing loops tile, outermost first.
    tiled_symbols: Sequence[sympy.Symbol] = ()
    # The op of the user's program that it is a part of.
    origin: Origin | None = field(default=None, compare=False)
    # The one that reads elements through index tensors, which may be fused into this op.
    index_origin: Origin | None = field(default=None, compare=False)

    @property
    def origins(self) -> Sequence[Origin]:
        """The ops of the user's program that it is a part of, those that are known."""
        known = (self.index_origin, self.origin)
        return list(dict.fromkeys(origin for origin in known if origin is not None))

    @property
    def index_args(self) -> Sequence[TensorArg]:
        """The index tensors, which come first. They select elements of other tensors."""
        names = {name for arg in self.args for name in index_names(arg)}
        return self.args[: len(names)]

    @property
    def operands(self) -> Sequence[TensorArg]:
        """The inputs without the index tensors."""
        return [arg for arg in self.args[len(self.index_args) :] if arg.is_input]

    @property
    def inputs(self) -> Sequence[TensorArg]:
        return [arg for arg in self.args if arg.is_input]

    @property
    def output(self) -> TensorArg:
        return self.args[-1]

    @property
    def cores(self) -> int:
        """The number of cores that the op is divided over."""
        return prod(split for _, split in self.iteration_space.values())

    @property
    def sizes(self) -> dict[sympy.Symbol, int]:
        return {symbol: int(size) for symbol, (size, _) in self.iteration_space.items()}

    @property
    def splits(self) -> dict[sympy.Symbol, int]:
        return {symbol: split for symbol, (_, split) in self.iteration_space.items()}

    @property
    def constants(self) -> Mapping[str, float]:
        constants: Mapping[str, float] = self.op_info.get("constants", {})
        return constants

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
            + (f", origin={self.origin!r}" if self.origin is not None else "")
            + (f", index_origin={self.index_origin!r}" if self.index_origin is not None else "")
            + ")"
        )


@dataclass(frozen=True)
class UnimplementedOp:
    """An op that the card does not implement: a kernel that contains it raises when it runs."""

    op: str


@dataclass(frozen=True)
class LoopSpec:
    """Specs that are repeated, each time on the next tile of their tiled symbols."""

    count: sympy.Expr
    body: Sequence["Spec"]
    tiled_symbols: Sequence[sympy.Symbol] = ()

    def __repr__(self) -> str:
        tiled = ", ".join(_expression(symbol) for symbol in self.tiled_symbols)
        body = ", ".join(repr(spec) for spec in self.body)
        return f"LoopSpec(count={_expression(self.count)}, body=[{body}], tiled_symbols=[{tiled}])"


Spec = OpSpec | LoopSpec | UnimplementedOp
AnySpec = TypeVar("AnySpec", bound=Spec)


def flat(specs: Sequence[Spec]) -> Iterator[OpSpec | UnimplementedOp]:
    """Yield every op, depth first."""
    for spec in specs:
        if isinstance(spec, LoopSpec):
            yield from flat(spec.body)
        else:
            yield spec


def without_origins(specs: Sequence[AnySpec]) -> list[AnySpec]:
    """Return the specs without the lines that they come from, on which no program depends."""
    return [_without_origin(spec) for spec in specs]


def _without_origin(spec: AnySpec) -> AnySpec:
    if isinstance(spec, LoopSpec):
        return replace(spec, body=without_origins(spec.body))
    if isinstance(spec, OpSpec):
        return replace(spec, origin=None, index_origin=None)
    return spec


def index_names(arg: TensorArg) -> list[str]:
    """Return the names of the index tensors that select the elements of this one."""
    return [name for coordinate in arg.device_coordinates for name in _indices_in(coordinate)]


# Cached: called often, with few different coordinates.
@lru_cache(maxsize=4096)
def _indices_in(coordinate: sympy.Expr | int) -> tuple[str, ...]:
    return tuple(lookup.tensor for lookup in sympy.sympify(coordinate).atoms(IndirectAccess))


def _expression(value: sympy.Expr | int) -> str:
    return f"sympify({str(value)!r})"
