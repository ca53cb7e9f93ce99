"""The two locations of an op: its position in a text or a list of OpSpecs, and its source.

The source is the line of the program that the op was compiled from, which `loc(...)` in the text
names. Messages and device programs refer to the position, since every op has one.
"""

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation

# The file of positions that count OpSpecs from one. Their column is 0.
OPSPECS = "opspecs"


def position_of(operation: Operation) -> FileLineColLoc | None:
    """Return the position of an op in its text, or the number of its OpSpec in column 0."""
    location = operation.location
    if isinstance(location, FusedLoc):
        location = location.locations.data[0]  # type: ignore[attr-defined]  # an ArrayAttr
    return location if isinstance(location, FileLineColLoc) else None


def source_of(operation: Operation) -> LocationAttr | None:
    """Return the line of the program that an op was compiled from; None if it is unknown."""
    location = operation.location
    if not isinstance(location, FusedLoc):
        return None
    source: LocationAttr = location.locations.data[1]  # type: ignore[attr-defined]  # an ArrayAttr
    return source


def location(position: FileLineColLoc, source: LocationAttr | None) -> LocationAttr:
    """Return the location of an op with these two parts."""
    if source is None or isinstance(source, UnknownLoc):
        return position
    return FusedLoc(ArrayAttr((position, source)), NoneAttr())


def with_source(known: LocationAttr | None, source: LocationAttr | None) -> LocationAttr | None:
    """Return the location with another source, if there is one."""
    if source is None:
        return known
    position = known.locations.data[0] if isinstance(known, FusedLoc) else known  # type: ignore[attr-defined]  # an ArrayAttr
    return location(position, source) if isinstance(position, FileLineColLoc) else known


def file_position(file: str, line: int, column: int = 0) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def named(name: str, source: LocationAttr | None) -> LocationAttr:
    """Return the location of an op by name, with its line if that is known."""
    return NameLoc(StringAttr(name), NoneAttr() if source is None else source)
