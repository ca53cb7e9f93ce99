"""The text of `spyre lx`: the use of the scratchpad in each stage of dumped kernels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_spyre.backend.program.labels import Labels
from torch_spyre.cards import load_card
from torch_spyre.dumped_programs import DumpedKernel, DumpedProgram
from torch_spyre.scratchpad.cores import CoreGroup, core_groups
from torch_spyre.scratchpad.tensor_names import TensorNames
from torch_spyre.text_reports import aligned, readable_bytes


@dataclass(frozen=True)
class StageReport:
    """One stage of a kernel: its groups of cores, and the names of tensors and instructions."""

    kernel: DumpedKernel
    stage: DumpedProgram
    groups: tuple[CoreGroup, ...]
    capacity: int

    @property
    def title(self) -> str:
        return f"{self.kernel.folder.name}: {self.stage.name}"

    @cached_property
    def tensor_names(self) -> TensorNames:
        return TensorNames(self.stage.program.content, self.kernel.ktir_lines)

    @cached_property
    def labels(self) -> Labels:
        return Labels(self.stage.program.content, self.kernel.ktir_lines)

    def position_name(self, group: CoreGroup, position: int) -> str:
        """Return the instruction at a position of a group, and the op it comes from."""
        if not group.occupancy.positions:
            return "no instruction"
        index = group.occupancy.positions[position]
        origin = self.labels.origin(index)
        source = self.labels.source(index) + (f" ({origin})" if origin else "")
        return f"instruction {index}: {self.labels.label(index)}, from {source}"


def stage_reports(kernels: Sequence[DumpedKernel]) -> list[StageReport]:
    """Return a report for each stage of the kernels, on the card in use."""
    capacity = load_card().compute.lx_bytes
    return [
        StageReport(kernel, stage, tuple(core_groups(stage.program, stage.array_bytes)), capacity)
        for kernel in kernels
        for stage in kernel.programs
    ]


def text_report(reports: Sequence[StageReport]) -> str:
    """Return the tables of all stages."""
    return "\n".join("\n".join(_stage_lines(report)) + "\n" for report in reports)


def _stage_lines(report: StageReport) -> Iterator[str]:
    yield report.title
    yield f"  ops       {' '.join(dict.fromkeys(report.stage.ops)) or 'unknown'}"
    high_water = max((group.occupancy.high_water for group in report.groups), default=0)
    yield (
        f"  capacity  {report.capacity:,} bytes of each core, of which the program uses the first "
        f"{high_water:,}"
    )
    rows: list[tuple[str, ...]] = [
        ("cores", "peak bytes", "peak", "average", "fragmentation", "reuse")
    ]
    rows += [_group_row(report, group) for group in report.groups]
    yield from (f"  {line}" for line in aligned(rows))
    for group in report.groups:
        yield from _peak_lines(report, group)


def _group_row(report: StageReport, group: CoreGroup) -> tuple[str, ...]:
    used = group.occupancy.figures(report.capacity)
    shares = (used.peak, used.average, used.fragmentation, used.reuse_rate)
    return (group.name, f"{used.peak_bytes:,}", *(f"{share:.1%}" for share in shares))


def _peak_lines(report: StageReport, group: CoreGroup) -> Iterator[str]:
    peak = group.occupancy.peak_position
    live = sorted(group.occupancy.live_at(peak), key=lambda tensor: -tensor.bytes)
    if not live:
        return
    yield f"  at the peak of {group.name}, {report.position_name(group, peak)}"
    rows = [
        (
            readable_bytes(tensor.bytes),
            f"[{tensor.begin}, {tensor.end})",
            report.tensor_names.name(tensor.writer),
        )
        for tensor in live
    ]
    yield from (f"    {line}" for line in aligned(rows))
