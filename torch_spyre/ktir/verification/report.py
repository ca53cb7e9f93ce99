"""From an op to an error or a warning that points at its place in the text."""

import warnings

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from torch_spyre.ktir.errors import KtirError, KtirWarning, SourcePlace
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.syntax.printer import print_operation


def _place(operation: Operation, source: Source | None) -> SourcePlace | None:
    """Where the op stands; one that no text spells out, where the op around it does."""
    location = operation.location
    around = operation.parent_op()
    while not isinstance(location, FileLineColLoc) and around is not None:
        location, around = around.location, around.parent_op()
    if source is None or not isinstance(location, FileLineColLoc):
        return None
    if location.filename.data != source.name:
        return None
    return source.word_at(location.line.data, location.column.data)


def error_at(operation: Operation, problem: str, source: Source | None) -> KtirError:
    """The error for an op. An op that no text holds is shown as it prints."""
    place = _place(operation, source)
    message = f"{operation.name}: {problem}"
    if place is None:
        message += f"\n  {print_operation(operation).splitlines()[0]}"
    return KtirError(message, place)


def warn_at(operation: Operation, problem: str, source: Source | None) -> None:
    place = _place(operation, source)
    where = f"{place}: " if place is not None else ""
    warnings.warn(f"{where}{operation.name}: {problem}", KtirWarning, stacklevel=2)
