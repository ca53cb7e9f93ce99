"""A KTIR module as users hold it: its functions, its text, its verification."""

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from torch_spyre.ktir.errors import KtirError
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.syntax.parser import parse_text
from torch_spyre.ktir.syntax.printer import print_module
from torch_spyre.ktir.verification import grid_of, verify_module

if TYPE_CHECKING:
    from torch_spyre.backend.kernels import Scalar
    from torch_spyre.backend.program.program import Program
    from torch_spyre.timing import Timing


@dataclass(frozen=True)
class Argument:
    """A declared argument of a function; the name is without its `%`."""

    name: str
    type: Attribute


@dataclass(frozen=True)
class Function:
    """What a function declares. `grid` always has three dims, x first."""

    name: str
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    operation: FuncOp

    @property
    def cores(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def is_kernel(self) -> bool:
        """Kernels have a body and return nothing."""
        return bool(self.operation.body.blocks) and not self.operation.function_type.outputs.data


@dataclass(frozen=True)
class Module:
    """A parsed module. `operation` is its xDSL form, `source` the text it came from."""

    operation: ModuleOp
    source: Source | None = None
    # Programs compiled of its functions, by what they were compiled for.
    programs: dict[Hashable, "Program"] = field(default_factory=dict, compare=False, repr=False)
    # Functions whose shapes depend on scalars: each set of scalars makes another program.
    compiled_with_scalars: set[str] = field(default_factory=set, compare=False, repr=False)

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions by name, in the order of the text."""
        return {
            operation.sym_name.data: _function(operation)
            for operation in self.operation.body.block.ops
            if isinstance(operation, FuncOp)
        }

    def verify(self, *, strict: bool = False) -> None:
        """Checks every rule. Strict mode drops what the interpreter allows and the front end not:
        loads, stores and reduces that change the shape of a tensor."""
        verify_module(self.operation, self.source, strict=strict)

    # The back end and the card load when they are first needed: reading a text needs neither.

    def compile(self, function: str, /, **scalars: "Scalar") -> "Program":
        """The device program of a function, with the scalars given compiled in."""
        from torch_spyre.backend.kernels import compile_kernel

        return compile_kernel(self, function, scalars)

    def estimate(self, function: str, /, **scalars: "Scalar") -> "Timing":
        """What a function would take on the card. Nothing runs."""
        from torch_spyre.backend.kernels import estimate_kernel

        return estimate_kernel(self, function, scalars)

    def run(self, function: str, /, **arguments: Any) -> "dict[str, NDArray[Any]]":
        """Runs a function on the current card and returns every array by name.

        Arrays (NumPy or torch, on the host or a card) are copied to device memory; scalars go by
        value.
        """
        from torch_spyre.backend.kernels import run_kernel

        return run_kernel(self, function, arguments)

    def __str__(self) -> str:
        return print_module(self.operation)


def load(path_or_text: str | os.PathLike[str], *, strict: bool = False) -> Module:
    """Reads and verifies a module from a file, or from a text with several lines."""
    source = _source(path_or_text)
    module = Module(parse_text(source), source)
    module.verify(strict=strict)
    return module


def _source(path_or_text: str | os.PathLike[str]) -> Source:
    if isinstance(path_or_text, str) and (
        "\n" in path_or_text or path_or_text.lstrip().startswith(("module", "func.func"))
    ):
        return Source("<text>", path_or_text)
    path = Path(path_or_text)
    try:
        return Source(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise KtirError(f"cannot read {str(path)!r}: {error}") from error


def _function(operation: FuncOp) -> Function:
    types = operation.function_type.inputs.data
    names = [argument.name_hint for argument in operation.args] if operation.body.blocks else []
    names += [None] * (len(types) - len(names))
    return Function(
        operation.sym_name.data,
        grid_of(operation),
        tuple(
            Argument(name or f"arg{position}", found)
            for position, (name, found) in enumerate(zip(names, types, strict=True))
        ),
        operation,
    )
