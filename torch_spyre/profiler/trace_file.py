"""Reads the events of a trace file that torch.profiler, or a tool that follows it, has written."""

import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_spyre.errors import TraceFileError

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class TraceFile:
    """The content of a file: its events, and whatever else its top level has."""

    path: Path
    events: list[Mapping[str, Any]]
    header: Mapping[str, Any]


def read_trace_file(path: Path) -> TraceFile:
    """Read a trace in the Chrome format, compressed or not; raise `TraceFileError` if it is none.

    Both forms of the format are read: an object with `traceEvents`, and a list of events.
    """
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP_MAGIC):
            content = gzip.decompress(content)
        value = json.loads(content)
    except OSError as error:
        raise TraceFileError(path, error.strerror or str(error)) from error
    except (zlib.error, EOFError) as error:
        raise TraceFileError(path, f"its compressed data are damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceFileError(path, "it is not text") from error
    except RecursionError as error:
        raise TraceFileError(path, "its values are nested too deeply") from error
    except ValueError as error:
        raise TraceFileError(path, f"it is not JSON: {error}") from error
    header = value if isinstance(value, dict) else {}
    events = header.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise TraceFileError(path, "it has no list of trace events")
    return TraceFile(
        path,
        [event for event in events if isinstance(event, dict)],
        {key: entry for key, entry in header.items() if key != "traceEvents"},
    )


def number(value: object) -> float | None:
    """Return a finite number, also of a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def integer(value: object) -> int | None:
    """Return a whole number, also of a text; None for anything else."""
    result = number(value)
    return None if result is None or not result.is_integer() else int(result)


def arguments_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}
