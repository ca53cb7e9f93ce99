"""The diagnostic report: what went wrong, where, with which versions; and files about failures.

Reporting a failure never hides it: a report that cannot be written is left out.
"""

import contextlib
import itertools
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_spyre import _C, __version__, knobs
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.logging_config import get_logger, problems

logger = get_logger("torch_spyre.device")

# Reports that are kept in the folder; older ones are removed.
MAX_REPORTS = 20
# The beginning of the line that a message ends with if there is a report.
NOTE = "Failure report: "
# The frames of the stack that a report contains, the innermost ones.
_MAX_FRAMES = 60

_numbers = itertools.count()
_last_error: dict[str, Any] | None = None


def get_diagnostic_report() -> dict[str, Any]:
    """Return versions, driver, card, knobs and the last error, as values that JSON can hold.

    This opens no card.
    """
    import torch

    return {
        "torch": {
            "version": torch.__version__,
            "host_instructions": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
        },
        "torch_spyre": {"version": __version__, "log_problems": list(problems())},
        "python": {
            "version": platform.python_version(),
            "platform": platform.platform(),
            "command": list(sys.argv),
            "process": os.getpid(),
        },
        "driver": _part(_driver),
        "card": _part(_card),
        "knobs": {knob.name: knob.text() for knob in knobs.all_knobs() if knob.text() is not None},
        "counters": _part(_counters),
        "last_error": _last_error,
    }


def _part(read: Any) -> Any:
    """Return a part of the report, or why it is missing: the report must not fail over it."""
    try:
        return read()
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"}


def _driver() -> dict[str, Any]:
    import torch

    spyre = torch.get_device_module(DEVICE_NAME)
    is_started = spyre.is_initialized()
    return {
        "mode": knobs.device.driver,
        "cards": spyre.device_count(),
        "is_started": is_started,
        "in_bad_fork": spyre._is_in_bad_fork(),
        "memory": [
            {"card": index, **_C.memory_report(index)}
            for index in range(spyre.device_count() if is_started else 0)
        ],
    }


def _card() -> dict[str, Any]:
    from torch_spyre.cards import load_card

    card = load_card()
    return {
        "name": card.identity.name,
        "type": card.identity.type,
        "description": str(card.path),
        "digest": card.digest,
        "cores": card.compute.cores,
        "lx_bytes": card.compute.lx_bytes,
        "memory_bytes": card.memory.usable_bytes,
    }


def _counters() -> dict[str, int]:
    return dict(_C.counters())


def report_kernel_error(name: str, message: str) -> str:
    """Report the error of a kernel; return what to add to its message. Called by the extension."""
    stack = traceback.format_stack(sys._getframe(1), limit=_MAX_FRAMES)
    path = _report("kernel", name, message, stack)
    return f"\n{NOTE}{path}" if path else ""


def report_compiler_error(error: BaseException) -> None:
    """Report an error of the compiler, with a note about the report on the exception."""
    stack = traceback.format_exception(error, limit=_MAX_FRAMES)
    path = _report("compiler", type(error).__name__, str(error), stack)
    if path:
        error.add_note(f"{NOTE}{path}")


def text_with_notes(error: BaseException) -> str:
    """Return the message of an error and its notes, for a warning."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


def _report(kind: str, name: str, message: str, stack: list[str]) -> str | None:
    """Remember an error as the last one, and write its report; return the path, if it exists."""
    global _last_error
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    error = {"kind": kind, "type": name, "message": message, "time": now, "report": None}
    _last_error = error
    try:
        folder = knobs.execution.reports
        if folder is None:
            return None
        path = _write(Path(folder), {"error": {**error, "stack": stack}})
    except Exception as problem:  # whatever it is, the error itself is more important
        logger.info("no failure report: %s", problem)
        return None
    error["report"] = str(path)
    return str(path)


def _write(folder: Path, error: Mapping[str, Any]) -> Path:
    from torch_spyre.backend.program.program import write_atomically

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = folder / f"failure-{stamp}-{os.getpid()}-{next(_numbers)}.json"
    report = {**error, **get_diagnostic_report()}
    del report["last_error"]  # the same
    write_atomically(path, json.dumps(report, indent=2, default=str).encode())
    _remove_old_reports(folder)
    return path


def _remove_old_reports(folder: Path) -> None:
    """Keep the newest reports. Other processes may be doing the same."""
    ages = []
    for path in folder.glob("failure-*.json"):
        with contextlib.suppress(OSError):
            ages.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(ages)[:-MAX_REPORTS]:
        with contextlib.suppress(OSError):
            path.unlink()
