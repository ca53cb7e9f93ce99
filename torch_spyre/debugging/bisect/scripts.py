"""Runs a script in processes of their own with other settings, and compares what they print."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch_spyre import knobs
from torch_spyre.debugging.bisect.child import Request, RunReport

# Kernels and graphs are compiled anew, so that every pass runs.
_COMPILE_ANEW = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
# Every op runs on the CPU, on tensors in the card's formats.
ON_CPU = {"TORCH_SPYRE_EAGER": "fallback", "TORCH_COMPILE_DISABLE": "1"}
NO_GRAPHS = {"TORCH_COMPILE_DISABLE": "1"}
# Numbers as Python and PyTorch print them.
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)\b"
)
_LAST_LINES = 12


@dataclass(frozen=True)
class ScriptRun:
    """A finished run: what it printed, and its report (None if the process did not write one)."""

    exit_code: int
    output: str
    errors: str
    report: RunReport | None

    @property
    def last_errors(self) -> str:
        """Return the end of its errors."""
        return "\n".join(self.errors.strip().splitlines()[-_LAST_LINES:])


@dataclass
class Script:
    """A script with its arguments, and the folder for the files of its runs."""

    path: Path
    arguments: Sequence[str]
    folder: Path
    timeout_seconds: float | None = None
    _count: int = 0

    def run(self, environment: Mapping[str, str | None], cpu_ops: Sequence[str] = ()) -> ScriptRun:
        """Run the script with these variables set, or unset where None."""
        self._count += 1
        stem = self.folder / f"run_{self._count}"
        report, request = stem.with_suffix(".report.json"), stem.with_suffix(".request.json")
        request.write_text(
            json.dumps(
                asdict(Request(str(self.path), list(self.arguments), str(report), list(cpu_ops)))
            )
        )
        command = [sys.executable, "-m", "torch_spyre.debugging.bisect.child", str(request)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                env=knobs.child_environment({**_COMPILE_ANEW, **environment}),
                timeout=self.timeout_seconds,
            )
        except subprocess.TimeoutExpired:
            problem = f"stopped after {self.timeout_seconds} seconds"
            return ScriptRun(1, "", problem, None)
        stem.with_suffix(".stdout").write_text(done.stdout)
        stem.with_suffix(".stderr").write_text(done.stderr)
        loaded = RunReport.load(report) if report.exists() else None
        return ScriptRun(done.returncode, done.stdout, done.stderr, loaded)


def difference(actual: ScriptRun, reference: ScriptRun, tolerance: float) -> str | None:
    """Return how two runs differ; None if they end and print the same.

    Numbers may differ by the tolerance, relative to the larger one or, below 1, absolutely.
    """
    if actual.exit_code != reference.exit_code:
        return f"it ends with code {actual.exit_code}, and on the CPU with {reference.exit_code}"
    lines = actual.output.splitlines(), reference.output.splitlines()
    for number, (left, right) in enumerate(zip(*lines, strict=False), 1):
        if not _is_close(left, right, tolerance):
            return f"line {number} of its output is {left!r}, and on the CPU {right!r}"
    if len(lines[0]) != len(lines[1]):
        return f"it prints {len(lines[0])} lines, and on the CPU {len(lines[1])}"
    return None


def _is_close(left: str, right: str, tolerance: float) -> bool:
    if left == right:
        return True
    if _NUMBER.sub("#", left) != _NUMBER.sub("#", right):
        return False
    pairs = zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=True)
    return all(_are_near(float(a), float(b), tolerance) for a, b in pairs)


def _are_near(left: float, right: float, tolerance: float) -> bool:
    if left == right or (left != left and right != right):
        return True
    return abs(left - right) <= tolerance * max(1.0, abs(left), abs(right))
