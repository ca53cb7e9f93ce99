"""Create errors and warnings that point at the source location of an op."""

import warnings

from xdsl.ir import Operation

from torch_spyre.errors import KtirError, KtirWarning
from torch_spyre.ktir.locations import position_of
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.syntax.printer import print_operation
from torch_spyre.source_location import SourceLocation


def _location(operation: Operation, source: Source | None) -> SourceLocation | None:
    """Return the location of an op, or of the nearest enclosing op that has one."""
    position = position_of(operation)
    parent = operation.parent_op()
    while position is None and parent is not None:
        position, parent = position_of(parent), parent.parent_op()
    if source is None or position is None or position.filename.data != source.name:
        return None
    return source.word_at(position.line.data, position.column.data)


def error_at(operation: Operation, problem: str, source: Source | None) -> KtirError:
    """Return the error for an op. An op without a location is printed in the message."""
    source_location = _location(operation, source)
    message = f"{operation.name}: {problem}"
    if source_location is None:
        message += f"\n  {print_operation(operation).splitlines()[0]}"
    return KtirError(message, source_location)


def warn_at(operation: Operation, problem: str, source: Source | None) -> None:
    """Emit a KtirWarning for an op."""
    source_location = _location(operation, source)
    prefix = f"{source_location}: " if source_location is not None else ""
    warnings.warn(f"{prefix}{operation.name}: {problem}", KtirWarning, stacklevel=2)
