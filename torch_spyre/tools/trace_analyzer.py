"""`aiu-trace-analyzer`: the options of upstream's analyzer of traces, on the same analysis.

It adds counters to a trace for viewers and writes tables. Options that need records which traces of
torch.profiler do not have are rejected with a reason.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch_spyre import __version__
from torch_spyre.errors import SpyreError
from torch_spyre.profiler.csv_tables import write_tables
from torch_spyre.profiler.processed_trace import COUNTERS, processed_trace, write_processed_trace
from torch_spyre.profiler.summary import summarize
from torch_spyre.profiler.trace import Clock, trace_of
from torch_spyre.profiler.trace_file import TraceFile, read_trace_file
from torch_spyre.profiler.utilisation import UtilisationSource, read_ideal_cycles
from torch_spyre.tools.messages import print_error, print_warning

_NO_POWER = "traces of torch.profiler have no records of power"
_NO_FLEX = "it is for traces of the flex runtime, which are not read"
_NO_STAGES = "there is one analysis, without stages"
_NO_JOIN = "it joins traces of several processes; give each to -i alone"
# Options of upstream that have no effect here, and why.
UNSUPPORTED = {
    "-P": _NO_STAGES,
    "-F": "traces do not say to which phase a kernel belongs",
    "-I": _NO_STAGES,
    "-D": "there is no log; errors and warnings go to stderr",
    "-V": _NO_STAGES,
    "-O": "events stay in the rows of their streams",
    "-R": _NO_JOIN,
    "-S": _NO_JOIN,
    "-M": _NO_JOIN,
    "-k": _NO_FLEX,
    "-t": _NO_FLEX,
    "--comm_summarize_seq": _NO_JOIN,
    "--drop_globals": _NO_FLEX,
    "--event_limit": "use --event_filter",
    "--flex_ts_fix": _NO_FLEX,
    "--flow": "traces of torch.profiler have the flows from launches to kernels",
    "--ignore_crit": "every error ends the analysis",
    "--keep_prep": _NO_FLEX,
    "--max_tid_streams": "events stay in the rows of their streams",
    "--power-stats": _NO_POWER,
}
_UNSUPPORTED_COUNTERS = {
    **dict.fromkeys(("power_ts3", "power_ts4"), _NO_POWER),
    **dict.fromkeys(("coll_bw", "bandwidth"), "each copy has its bandwidth as an argument"),
    **dict.fromkeys(("prep_queue", "rcu_util"), _NO_FLEX),
}


@dataclass(frozen=True)
class _Filter:
    """A pattern for an attribute of events, such as name or cat."""

    attribute: str
    pattern: re.Pattern[str]

    def matches(self, event: Mapping[str, Any]) -> bool:
        return self.pattern.search(str(event.get(self.attribute, ""))) is not None


def main(arguments: Sequence[str] | None = None) -> None:
    options = argument_parser().parse_args(arguments)
    try:
        _run(options)
    except SpyreError as error:
        print_error(" ".join(str(error).split()))
        raise SystemExit(1) from None


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aiu-trace-analyzer",
        description="Add counters to a trace of torch.profiler, and write tables of its kernels. "
        "`spyre trace` shows a summary.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"%(prog)s {__version__}")
    add("-i", dest="input", type=Path, required=True, metavar="FILE", help="the trace")
    add(
        "-c",
        dest="ideal_cycles",
        type=Path,
        metavar="FOLDER",
        help="a folder of the compiler with <kernel>/perf/ideal_cycles.json",
    )
    add(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="default: processed_trace.pt.trace.json, or processed_trace.json with --disable_tb",
    )
    add("-f", dest="format", choices=["json"], default="json", help="the format of the output")
    add(
        "--freq",
        dest="core_mhz",
        type=_core_mhz,
        metavar="SOC[:CORE]",
        help="clocks in MHz, for ideal cycles; default: what the trace says, else 1000:1100",
    )
    add(
        "-C",
        dest="counters",
        type=_counters,
        default=COUNTERS,
        metavar="NAMES",
        help=f"the counters to add: {', '.join(COUNTERS)}; default: all",
    )
    add(
        "--event_filter",
        type=_filters,
        default=[],
        metavar="ATTRIBUTE:REGEX,...",
        help="leave out events with a matching attribute, such as name or cat",
    )
    add("--tb", action="store_true", default=True, help="name the output for TensorBoard (default)")
    add("--disable_tb", dest="tb", action="store_false", help="do not")
    add("--keep_names", action="store_true", help="keep numbers in the names of kernels in tables")
    add("--time_unit", choices=["ms", "ns"], default="ns", help="the unit that viewers show")
    add("--disable_file", action="store_true", help="write the tables only")
    for option in UNSUPPORTED:
        add(option, action=_Unsupported, nargs="?", help=argparse.SUPPRESS)
    return parser


class _Unsupported(argparse.Action):
    """Rejects an option with the reason."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        option = str(option_string)
        parser.error(f"{option} is not supported: {UNSUPPORTED[option]}")


def _core_mhz(text: str) -> float:
    parts = text.split(":")
    try:
        clocks = [float(part) for part in parts]
    except ValueError:
        clocks = []
    if len(clocks) not in (1, 2) or min(clocks) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not one or two clocks in MHz")
    # Upstream's cores have 1.1 times the clock of the chip.
    return clocks[1] if len(clocks) == 2 else 1.1 * clocks[0]


def _counters(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name in _UNSUPPORTED_COUNTERS:
            reason = _UNSUPPORTED_COUNTERS[name]
            raise argparse.ArgumentTypeError(f"{name} is not supported: {reason}")
        if name not in COUNTERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(COUNTERS)}")
    return tuple(text.split(","))


def _filters(text: str) -> list[_Filter]:
    filters = []
    for part in text.split(","):
        attribute, colon, pattern = part.partition(":")
        try:
            filters.append(_Filter(attribute, re.compile(pattern)))
        except re.error as error:
            raise argparse.ArgumentTypeError(f"{pattern!r} is no regex: {error}") from error
        if not colon or not attribute:
            raise argparse.ArgumentTypeError(f"{part!r} is not attribute:regex")
    return filters


def _run(options: argparse.Namespace) -> None:
    kernels = {} if options.ideal_cycles is None else read_ideal_cycles(options.ideal_cycles)
    source = UtilisationSource(kernels, options.core_mhz)
    file = _without(read_trace_file(options.input), options.event_filter)
    trace = trace_of(file, Clock.HOST)
    summary = summarize(trace, source)
    for note in summary.notes:
        print_warning(note)
    default = "processed_trace.pt.trace.json" if options.tb else "processed_trace.json"
    output = options.output or Path(default)
    if not options.disable_file:
        content = {**processed_trace(trace, source, options.counters)}
        content["displayTimeUnit"] = options.time_unit
        write_processed_trace(content, output)
        print(output)
    prefix = output.with_name(output.name.removesuffix(".json").removesuffix(".pt.trace"))
    for path in write_tables(summary, prefix, options.keep_names):
        print(path)


def _without(file: TraceFile, filters: Sequence[_Filter]) -> TraceFile:
    events = [event for event in file.events if not any(f.matches(event) for f in filters)]
    return replace(file, events=events)


if __name__ == "__main__":
    main()
