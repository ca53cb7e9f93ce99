"""Counters of the kernels that a block of code launches.

with torch_spyre.profiler.instrument(metrics=["exec", "dma", "pe"], ops=["aten.mm"]) as report:
    step(x)
report.print_report()
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from torch_spyre import _C, knobs
from torch_spyre.backend.loaded_kernels import LoadedKernel, kernel_numbered
from torch_spyre.errors import InputError
from torch_spyre.kernel_counters.counters import KernelCounters, kernel_counters
from torch_spyre.kernel_counters.metrics import DEFAULT_METRICS, check_metrics
from torch_spyre.kernel_counters.report import KernelReport, as_dicts, text_report
from torch_spyre.text_reports import write_text


class Instrumentation:
    """A context in which launches are counted; its reports describe the kernels that were launched.

    Reports can be made inside the context, too. Contexts may be nested, and count all threads.
    """

    def __init__(
        self, metrics: Sequence[str] = DEFAULT_METRICS, ops: Sequence[str] | None = None
    ) -> None:
        self.metrics = check_metrics(metrics)
        self.ops = None if ops is None else tuple(map(_plain_name, ops))
        self._before: dict[int, int] = {}
        self._kernels: dict[int, LoadedKernel] = {}
        self._launches: dict[int, int] = {}
        self._is_active = False

    def __enter__(self) -> "Instrumentation":
        if knobs.emulator.mode == "functional":
            raise InputError(
                "instrument", "SPYRE_EMU_MODE=functional has no device times; use another mode"
            )
        _C._start_launch_counts()
        self._is_active = True
        self._before = _C._launch_counts()
        self._launches, self._kernels = {}, {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._update()
        self._is_active = False
        _C._stop_launch_counts()

    def _update(self) -> None:
        """Read the counts, and keep the kernels, which may be deleted before the report is made."""
        if not self._is_active:
            return
        for number, count in _C._launch_counts().items():
            launches = count - self._before.get(number, 0)
            if launches:
                self._launches[number] = launches
                kernel = kernel_numbered(number)
                if kernel is not None:
                    self._kernels[number] = kernel

    @property
    def kernels(self) -> list[KernelReport]:
        """Return the reports of the kernels that were launched, those with most time first."""
        self._update()
        reports = [
            KernelReport(_counters(kernel), self._launches[number])
            for number, kernel in self._kernels.items()
            if self._is_selected(kernel)
        ]
        return sorted(reports, key=lambda report: -report.total_ps)

    @property
    def num_unknown(self) -> int:
        """Return the number of launches of kernels that no longer existed at the end."""
        self._update()
        return sum(n for number, n in self._launches.items() if number not in self._kernels)

    def _is_selected(self, kernel: LoadedKernel) -> bool:
        if self.ops is None:
            return True
        return any(_computes(kernel, op) for op in self.ops)

    def print_report(self, file: TextIO | None = None) -> None:
        """Print the tables of all kernels."""
        print(text_report(self.kernels, self.metrics), end="", file=file or sys.stdout)
        if self.num_unknown:
            print(f"{self.num_unknown} launches of kernels that no longer exist", file=file)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return everything that is known of the kernels, as plain data."""
        return as_dicts(self.kernels)

    def write_html(self, path: str | Path) -> None:
        """Write a page with flame graphs of the kernels."""
        from torch_spyre.kernel_counters.page import counters_page

        write_text(Path(path), counters_page(self.kernels, "instrument()"))


def _counters(kernel: LoadedKernel) -> KernelCounters:
    return kernel_counters(
        kernel.program,
        kernel.array_bytes,
        kernel.scalars,
        kernel.ops,
        memories=kernel.memories,
    )


def _plain_name(op: str) -> str:
    """Return the name of an op without its namespace and overload."""
    name = op.replace("::", ".").removeprefix("torch.").removeprefix("ops.").removeprefix("aten.")
    return name.partition(".")[0]


def _computes(kernel: LoadedKernel, op: str) -> bool:
    """Return whether a kernel computes an op: it is one of its own, or is in its name.

    Kernels of PyTorch are named after the ATen ops that they fuse, separated by underscores.
    """
    words = kernel.name.split("_")
    parts = op.strip("_").split("_")
    in_name = any(words[i : i + len(parts)] == parts for i in range(len(words)))
    return op in kernel.ops or in_name
