"""The page of `spyre lx --html`: the scratchpad of each group of cores as a picture."""

from collections.abc import Iterator, Sequence
from html import escape

from torch_spyre.html_pages import Box, Cell, box_chart, page, table
from torch_spyre.scratchpad.cores import CoreGroup
from torch_spyre.scratchpad.occupancy import Tensor
from torch_spyre.scratchpad.report import StageReport
from torch_spyre.text_reports import readable_bytes

_PEAK = "peak"
# More would make pages slow; what is left out is counted in the text.
_MAX_BOXES = 3000


def scratchpad_page(reports: Sequence[StageReport], name: str) -> str:
    """Return the page of the stages of dumped kernels."""
    overview = table(
        "stages",
        ["Stage", "Cores", "Peak bytes", "Peak", "Average", "Fragmentation", "Reuse"],
        (_overview_row(report, group) for report in reports for group in report.groups),
    )
    explanation = (
        "<p>Each picture shows a core's scratchpad over the instructions of a program that access "
        "it: a rectangle is a tensor, from its first write to its last read, at its addresses. "
        "Cores with equal pictures share one. The column of the peak is marked.</p>"
    )
    parts = [part for number, report in enumerate(reports) for part in _stage(number, report)]
    return page("Scratchpad occupancy", [explanation, overview, *parts], subtitle=name)


def _overview_row(report: StageReport, group: CoreGroup) -> list[Cell | str]:
    used = group.occupancy.figures(report.capacity)
    shares = (used.peak, used.average, used.fragmentation, used.reuse_rate)
    return [
        report.title,
        group.name,
        Cell(f"{used.peak_bytes:,}", sort=float(used.peak_bytes)),
        *(Cell(f"{share:.1%}", sort=share) for share in shares),
    ]


def _stage(number: int, report: StageReport) -> Iterator[str]:
    yield f"<h2>{escape(report.title)}</h2>"
    ops = " ".join(dict.fromkeys(report.stage.ops))
    yield f"<p>{escape(ops)}</p>"
    for position, group in enumerate(report.groups):
        yield from _group(f"tensors{number}-{position}", report, group)


def _group(name: str, report: StageReport, group: CoreGroup) -> Iterator[str]:
    used, occupied = group.occupancy.figures(report.capacity), group.occupancy
    yield f"<h3>{escape(group.name)}</h3>"
    if not occupied.tensors:
        yield "<p>No tensor is in the scratchpad.</p>"
        return
    at_peak = report.position_name(group, occupied.peak_position)
    yield (
        f"<p>{used.peak_bytes:,} of {report.capacity:,} bytes ({used.peak:.1%}) at the peak, "
        f"{escape(at_peak)}. The first {occupied.high_water:,} bytes are used.</p>"
    )
    shown = sorted(occupied.tensors, key=lambda tensor: -tensor.bytes)[:_MAX_BOXES]
    yield box_chart(
        [_peak_box(group), *(_tensor_box(report, group, tensor) for tensor in shown)],
        x_range=(0.0, float(len(occupied.positions))),
        y_range=(0.0, float(occupied.high_water)),
        y_unit="B",
    )
    if len(shown) < len(occupied.tensors):
        yield f"<p>{len(occupied.tensors) - len(shown)} smaller tensors are not shown.</p>"
    yield table(
        name,
        ["Tensor", "Bytes", "Address", "From", "To", "At the peak"],
        (_tensor_row(report, group, tensor) for tensor in occupied.tensors),
    )


def _peak_box(group: CoreGroup) -> Box:
    occupied = group.occupancy
    peak, top = occupied.peak_position, occupied.high_water
    text = f"peak: {readable_bytes(occupied.occupied_bytes[peak])} occupied"
    return Box(peak, peak + 1, 0, top, "", text, _PEAK)


def _tensor_box(report: StageReport, group: CoreGroup, tensor: Tensor) -> Box:
    name = report.tensor_names.name(tensor.writer)
    first = report.position_name(group, tensor.first)
    last = report.position_name(group, tensor.last - 1)
    text = f"{name}: {readable_bytes(tensor.bytes)} at {tensor.begin}\nfrom {first}\nto {last}"
    return Box(tensor.first, tensor.last, tensor.begin, tensor.end, name, text, _kind(name))


def _kind(name: str) -> str:
    """Return the group that decides on the colour of a tensor."""
    return "loaded from device memory" if name.endswith("(loaded)") else "computed"


def _tensor_row(report: StageReport, group: CoreGroup, tensor: Tensor) -> list[Cell | str]:
    positions = group.occupancy.positions
    return [
        report.tensor_names.name(tensor.writer),
        Cell(f"{tensor.bytes:,}", sort=float(tensor.bytes)),
        Cell(f"{tensor.begin:,}", sort=float(tensor.begin)),
        Cell(str(positions[tensor.first]), sort=float(tensor.first)),
        Cell(str(positions[tensor.last - 1]), sort=float(tensor.last)),
        "yes" if tensor.is_live_at(group.occupancy.peak_position) else "",
    ]
