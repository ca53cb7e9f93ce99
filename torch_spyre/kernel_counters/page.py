"""The page of `spyre instrument --html`: kernels as flame graphs of their loops, units, cores."""

from collections.abc import Iterator, Sequence
from html import escape

from torch_spyre.html_pages import Bar, Cell, Frame, Part, bars, filter_box, flame, page, table
from torch_spyre.kernel_counters.counters import InstructionCounters, KernelCounters
from torch_spyre.kernel_counters.loop_tree import LoopNode, loop_tree
from torch_spyre.kernel_counters.metrics import COLUMNS
from torch_spyre.kernel_counters.report import UNIT_HEADS, KernelReport, core_groups, unit_cells
from torch_spyre.kernel_counters.unit_cycles import UNITS, UnitCycles

_SECONDS_PER_PS = 1e-12
_PARTS = ("busy", "waiting for input", "waiting for output", "idle")


def counters_page(kernels: Sequence[KernelReport], name: str) -> str:
    """Return the page of kernels, those with most device time first."""
    ordered = sorted(kernels, key=lambda kernel: -kernel.total_ps)
    explanation = (
        "<p>In each flame graph the widths are device time of one launch: the kernel, its loops, "
        "and in them the instructions, coloured by the unit that they keep busy for longest. "
        "The times come from the timing model, which also determines the times of launches.</p>"
    )
    overview = table("kernels", ["Kernel", "Launches", "us", "Bound by"], map(_row, ordered))
    parts = [part for number, kernel in enumerate(ordered) for part in _kernel(number, kernel)]
    return page("Counters inside kernels", [explanation, overview, *parts], subtitle=name)


def _row(kernel: KernelReport) -> list[Cell | str]:
    timing = kernel.counters.timing
    launches = "unknown" if kernel.launches is None else f"{kernel.launches:,}"
    return [
        kernel.counters.name,
        Cell(launches, sort=float(kernel.launches or 0)),
        Cell(f"{timing.time_us:.3f}", sort=timing.time_us),
        timing.bound_by,
    ]


def _kernel(number: int, kernel: KernelReport) -> Iterator[str]:
    counters = kernel.counters
    yield f"<h2>{escape(counters.name)}</h2>"
    yield f"<p>{escape(kernel.headline)}; ops: {escape(' '.join(dict.fromkeys(counters.ops)))}</p>"
    yield flame(_frame(loop_tree(counters)), "s")
    yield "<h3>Cycles of the units</h3>"
    yield bars(
        [_bar(unit, counters.units[unit]) for unit in UNITS],
        longest=float(max(counters.timing.cycles, 1)),
        groups=_PARTS,
    )
    yield "<h3>Cores</h3>"
    yield table(
        f"cores{number}", ["Cores", "Executions", "Unit", *UNIT_HEADS], _core_rows(counters)
    )
    yield "<h3>Instructions</h3>"
    name = f"instructions{number}"
    yield filter_box(name)
    yield _instruction_table(name, counters)


def _frame(node: LoopNode) -> Frame:
    group = ""
    text = f"from {node.source}" if node.source else ""
    if node.counters is not None:
        text += f", {node.counters.origin}" if node.counters.origin else ""
        unit = node.counters.bound_by
        group = f"bound by {unit}" if unit else ""
        text += f"\n{sum(node.counters.executions):,} executions on {node.counters.cores} cores"
    children = [_frame(child) for child in node.children]
    return Frame(node.label, node.time_ps * _SECONDS_PER_PS, children, text, group)


def _bar(unit: str, cycles: UnitCycles) -> Bar:
    values = (cycles.busy, cycles.stalled_on_input, cycles.stalled_on_output, cycles.idle)
    parts = [
        Part(float(value), name, f"{unit} {name}: {value:,} of {cycles.total:,} cycles")
        for name, value in zip(_PARTS, values, strict=True)
    ]
    return Bar(unit, parts, f"{cycles.busy:,} cycles busy")


def _core_rows(counters: KernelCounters) -> Iterator[list[Cell | str]]:
    for name, core in core_groups(counters):
        for unit, cycles in core.units.items():
            yield [
                name,
                Cell(f"{core.executions:,}", sort=float(core.executions)),
                unit,
                *unit_cells(cycles),
            ]


def _instruction_table(name: str, counters: KernelCounters) -> str:
    heads = ["#", "Instruction", "KTIR op", *(column.head for column in COLUMNS), "Bound by"]
    rows = [_instruction_row(counters, entry) for entry in counters.instructions]
    if any(entry.origin for entry in counters.instructions):
        heads.append("From")
        for row, entry in zip(rows, counters.instructions, strict=True):
            row.append(entry.origin)
    return table(name, heads, rows)


def _instruction_row(counters: KernelCounters, entry: InstructionCounters) -> list[Cell | str]:
    values = [column.value(counters, entry) for column in COLUMNS]
    return [
        Cell(str(entry.index), sort=float(entry.index)),
        entry.label,
        entry.source,
        *(
            Cell(column.text(value), sort=float(value))
            for column, value in zip(COLUMNS, values, strict=True)
        ),
        entry.bound_by or "",
    ]
