"""Runs kernels with checks of every access, and reports the first one outside its view."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Operation

from torch_spyre.backend.arrays import is_array
from torch_spyre.backend.kernels import card_message, function_named, run_kernel
from torch_spyre.backend.lowering.arguments import views_on
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import KernelArgumentError, KtirError, SpyreError
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import LoadOp, StoreOp
from torch_spyre.ktir.locations import position_of
from torch_spyre.ktir.verification.report import error_at

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function, Module

# The form of errors of the card: kernel f, core 3, instruction 7 (ktdp.load at 12:5): problem.
_CARD_ERROR = re.compile(
    r"core (?P<core>\d+), instruction \d+ \((?P<op>\S+) at (?P<line>\d+):(?P<column>\d+)\): "
    r"(?P<problem>.*)",
    re.DOTALL,
)


def run_with_bounds_checks(
    module: "Module", name: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a kernel; raise KtirError at the first access outside its view."""
    function = function_named(module, name)
    _check_arrays(function, arguments)
    try:
        results = run_kernel(module, name, arguments, checks_bounds=True)
        torch.get_device_module(DEVICE_NAME).synchronize()
    except SpyreError:
        raise
    except (IndexError, RuntimeError) as error:
        match = _CARD_ERROR.search(card_message(error))
        if match is None:
            raise
        raise _error(module, function, match) from error
    return results


def _check_arrays(function: "Function", arguments: Mapping[str, Any]) -> None:
    """Raise if an array is smaller than a view of it."""
    from torch_spyre.backend.argument_analysis import end_of_view

    for argument, value in zip(function.arguments, function.operation.args, strict=True):
        array = arguments.get(argument.name)
        if array is None or not is_array(array):
            continue
        count = array.numel() if isinstance(array, torch.Tensor) else array.size
        for view in views_on(value, True):
            end = end_of_view(view) if view.offset is value else None
            if end is not None and end > count:
                raise KernelArgumentError(
                    function.name,
                    f"{argument.name} has {count} elements, and a view of it ends at element "
                    f"{end}: {view.result.type}",
                )


def _error(module: "Module", function: "Function", match: re.Match[str]) -> KtirError:
    """Return an error of the card as one at the op of the kernel's text."""
    core = int(match["core"])
    x, y, _ = function.grid
    point = (core % x, core // x % y, core // (x * y))
    problem = f"out of bounds on core {core}, grid point {point}: {match['problem'].strip()}"
    line, column = int(match["line"]), int(match["column"])
    for operation in function.operation.walk():
        position = position_of(operation)
        if (
            position is not None
            and (position.line.data, position.column.data) == (line, column)
            and operation.name == match["op"]
        ):
            return error_at(operation, problem + _view_text(operation), module.source)
    return KtirError(f"{function.name}: {match['op']} at {line}:{column}: {problem}")


def _view_text(operation: Operation) -> str:
    """Return the extents of the view that a load or store accesses, as text."""
    if not isinstance(operation, LoadOp | StoreOp):
        return ""
    tile = operation.tile.owner
    if not isinstance(tile, ConstructAccessTileOp | ConstructIndirectAccessTileOp):
        return ""
    if not isinstance(tile.base.type, MemRefType):
        return ""
    sizes = ("?" if size == DYNAMIC_INDEX else str(size) for size in tile.base.type.get_shape())
    name = f"%{tile.base.name_hint} " if tile.base.name_hint else ""
    return f"; the view {name}has extents [{', '.join(sizes)}]"
