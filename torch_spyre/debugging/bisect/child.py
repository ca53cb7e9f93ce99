"""Runs a script for `spyre bisect`, and writes what happened to a JSON file.

`python -m torch_spyre.debugging.bisect.child REQUEST` where REQUEST is a JSON file of a `Request`.
"""

import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# The exit code of a run that ended with an exception.
FAILED = 1


@dataclass(frozen=True)
class Request:
    """A script, its arguments, and the ops that are to run on the CPU."""

    script: str
    arguments: Sequence[str]
    report: str
    cpu_ops: Sequence[str] = ()


@dataclass(frozen=True)
class DivergenceReport:
    """The facts of a `VerificationError`."""

    kernel: str
    message: str
    op: str | None
    compiler_pass: str | None
    origin: str
    line: str
    folder: str | None


@dataclass
class RunReport:
    """How a script ended, and what its verification found."""

    exit_code: int = 0
    error: str = ""
    divergences: list[DivergenceReport] = field(default_factory=list)
    summary: str = ""
    # The eager ops that had kernels, in the order of their first calls, with the lines of these.
    ops: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def load(path: Path) -> "RunReport":
        values: dict[str, Any] = json.loads(path.read_text())
        divergences = [DivergenceReport(**entry) for entry in values.pop("divergences")]
        ops = [(op, line) for op, line in values.pop("ops")]
        return RunReport(divergences=divergences, ops=ops, **values)


def main(path: str) -> int:
    """Run the script of a request; return its exit code."""
    request = Request(**json.loads(Path(path).read_text()))
    report = RunReport()
    import torch  # loads the device

    from torch_spyre.constants import DEVICE_NAME
    from torch_spyre.debugging import verification
    from torch_spyre.ops import planning

    torch.manual_seed(0)
    sys.argv = [request.script, *request.arguments]
    sys.path[0] = str(Path(request.script).resolve().parent)
    try:
        with planning.ops_on_cpu(request.cpu_ops), planning.recorded_ops(report.ops):
            runpy.run_path(request.script, run_name="__main__")
            torch.get_device_module(DEVICE_NAME).synchronize()
    except SystemExit as stop:
        report.exit_code = _code_of(stop)
    except BaseException as error:
        report.exit_code = FAILED
        report.error = "".join(traceback.format_exception_only(error)).strip()
        traceback.print_exc()
    summary = verification.summary()
    report.summary = str(summary)
    report.divergences = [
        DivergenceReport(
            error.kernel,
            str(error),
            error.op,
            error.compiler_pass,
            error.origin,
            error.line,
            None if error.folder is None else str(error.folder),
        )
        for error in summary.divergences
    ]
    Path(request.report).write_text(json.dumps(asdict(report)))
    return report.exit_code


def _code_of(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    return stop.code if isinstance(stop.code, int) else FAILED


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the script must not keep the process.
    os._exit(code)
