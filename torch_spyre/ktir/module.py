"""The user-facing KTIR module: its functions, text, verification and execution."""

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from torch_spyre.errors import KtirError
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
    """The signature of a function. `grid` always has three dims, x first."""

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
        """Return whether the function has a body and no results, as kernels do."""
        return bool(self.operation.body.blocks) and not self.operation.function_type.outputs.data


@dataclass(frozen=True)
class Module:
    """A parsed module. `operation` is its xDSL form, `source` the text it came from."""

    operation: ModuleOp
    source: Source | None = None
    # Compiled programs of its functions, by the card and scalars they were compiled for.
    programs: dict[Hashable, "Program"] = field(default_factory=dict, compare=False, repr=False)
    # Functions whose shapes depend on scalars: every combination of scalars needs its own program.
    compiled_with_scalars: set[str] = field(default_factory=set, compare=False, repr=False)

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """Return the functions by name, in source order."""
        return {
            operation.sym_name.data: _function(operation)
            for operation in self.operation.body.block.ops
            if isinstance(operation, FuncOp)
        }

    def verify(self, *, strict: bool = False) -> None:
        """Verify the module; raise KtirError if it is invalid.

        Strict mode also rejects what the reference interpreter accepts and the front end does not:
        loads, stores and reduces that change the shape of a tensor.
        """
        verify_module(self.operation, self.source, strict=strict)

    # The back end is imported on first use: parsing and verification do not need it.

    def compile(self, function: str, /, **scalars: "Scalar") -> "Program":
        """Compile a function to a device program, specialized to the given scalars."""
        from torch_spyre.backend.kernels import compile_kernel

        return compile_kernel(self, function, scalars)

    def estimate(self, function: str, /, **scalars: "Scalar") -> "Timing":
        """Estimate the run time of a function on the card, without running it."""
        from torch_spyre.backend.kernels import estimate_kernel

        return estimate_kernel(self, function, scalars)

    def run(self, function: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a function on a card and return every array by name.

        Arrays on the host (NumPy or torch) are copied to the current card, and returned as NumPy
        arrays. Tensors on a card are written in place and returned themselves; if all arrays are
        such tensors, the launch is asynchronous. Scalars are passed by value.
        """
        from torch_spyre.backend.kernels import run_kernel

        return run_kernel(self, function, arguments)

    def check_bounds(self, function: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a function like `run`; raise KtirError at the first access outside its view.

        Without this check, elements beyond a view are its neighbours in memory, or zeros beyond
        the end of the array.
        """
        from torch_spyre.backend.bounds_checks import run_with_bounds_checks

        return run_with_bounds_checks(self, function, arguments)

    def __str__(self) -> str:
        return print_module(self.operation)


def load(path_or_text: str | os.PathLike[str], *, strict: bool = False) -> Module:
    """Parse and verify a module from a file, or from a text with several lines."""
    return load_source(_source(path_or_text), strict=strict)


def load_source(source: Source, *, strict: bool = False) -> Module:
    """Parse and verify the text of a module."""
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
            Argument(name or f"arg{position}", argument_type)
            for position, (name, argument_type) in enumerate(zip(names, types, strict=True))
        ),
        operation,
    )
