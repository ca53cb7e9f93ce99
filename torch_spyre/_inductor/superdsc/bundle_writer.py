"""Writes a bundle: a SuperDSC file for each op, and `bundle.mlir`, which executes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sympy import Symbol

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, flat
from torch_spyre._inductor.superdsc.emission import generate_sdsc
from torch_spyre._inductor.superdsc.parsing import parse_op_spec
from torch_spyre._inductor.superdsc.pool_allocation import with_pool_offsets
from torch_spyre._inductor.superdsc.programs import common_sticks_per_op
from torch_spyre._inductor.superdsc.scratchpad_allocation import with_scratchpad_addresses
from torch_spyre._inductor.superdsc.sdsc_spec import SDSCSpec
from torch_spyre._inductor.superdsc.segments import (
    as_offsets,
    has_distinct_addresses,
    has_own_segments,
    has_pool,
    with_argument_addresses,
)
from torch_spyre._inductor.superdsc.symbol_table import INPUT_TYPE, POOL, SymbolTable
from torch_spyre._inductor.superdsc.unrolling import (
    make_trips,
    select_tile,
    trip_count,
    unroll_loop_specs,
)
from torch_spyre.cards import load_card
from torch_spyre.errors import InvalidOpSpecError

BUNDLE_FILE = "bundle.mlir"
SDSC_FILES = "sdsc_[0-9]*.json"


def generate_bundle(
    kernel_name: str,
    output_dir: str | Path,
    specs: Sequence[Spec],
    unroll_loops: bool | None = None,
    symbolic_args: bool | None = None,
) -> None:
    """Write `sdsc_<n>.json` for each op, and `bundle.mlir`, into `output_dir`.

    `unroll_loops` writes one op per loop trip instead of an `scf.for`; `symbolic_args` makes
    addresses parameters of the bundle instead of constants, as they are anyway if arguments share a
    segment. Both default to the knobs. If several
    arguments have the same address, new addresses are assigned here; likewise for tensors that
    overlap in the pool or in the scratchpad. Ops that the card does not implement are omitted:
    running such a kernel raises an error.
    """
    unroll = knobs.bundles.unroll_loops if unroll_loops is None else unroll_loops
    symbolic = knobs.bundles.symbolic_args if symbolic_args is None else symbolic_args
    specs = with_scratchpad_addresses(specs, load_card().compute.lx_usable_bytes)
    specs = with_pool_offsets(specs)
    if not has_distinct_addresses(specs):
        specs = with_argument_addresses(as_offsets(specs))
    # Fixed addresses identify an argument by its segment.
    symbolic = symbolic or not has_own_segments(specs)
    specs = unroll_loop_specs(specs) if unroll else specs
    sticks = common_sticks_per_op([spec for spec in flat(specs) if isinstance(spec, OpSpec)])
    writer = _Writer(kernel_name, symbolic, has_pool(specs), sticks)
    writer.write(specs, ())
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for stale_file in folder.glob(SDSC_FILES):
        stale_file.unlink()
    for index, content in enumerate(writer.files):
        (folder / f"sdsc_{index}.json").write_text(json.dumps(content, indent=2))
    (folder / BUNDLE_FILE).write_text(writer.text())


@dataclass(frozen=True)
class _Loop:
    spec: LoopSpec
    variable: str


@dataclass
class _Writer:
    kernel: str
    is_symbolic: bool
    has_pool: bool
    # The common sticks of each op's program, in the order of the ops: see `common_sticks`.
    sticks: Sequence[Mapping[Symbol, int]]
    files: list[dict[str, Any]] = field(default_factory=list)
    _table: SymbolTable = field(default_factory=SymbolTable)
    _bounds: list[int] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)

    def write(self, specs: Sequence[Spec], loops: tuple[_Loop, ...]) -> None:
        for spec in specs:
            if isinstance(spec, LoopSpec):
                self._write_loop(spec, loops)
            elif isinstance(spec, OpSpec):
                self._write_op(spec, loops)

    def _write_loop(self, spec: LoopSpec, loops: tuple[_Loop, ...]) -> None:
        count = trip_count(spec)
        if count is None:
            raise NotImplementedError(
                f"kernel {self.kernel}: a loop of {spec.count} trips cannot be written: "
                "the trip count is not a constant"
            )
        loop_index = len(self._bounds)
        self._bounds.append(count)
        variable = f"%i_{loop_index}"
        self._emit(loops, f"scf.for {variable} = %c0 to %loop_bound_{loop_index} step %c1 {{")
        self.write(spec.body, (*loops, _Loop(spec, variable)))
        self._emit(loops, "}")

    def _write_op(self, spec: OpSpec, loops: tuple[_Loop, ...]) -> None:
        index = len(self.files)
        parsed = self._parsed(spec, loops, [0] * len(loops))
        steps = self._steps(spec, parsed, loops)
        ids: dict[int, list[int]] = {}
        operands: dict[str, int] = {}
        if self.is_symbolic:
            ids = self._bind(parsed, steps, loops, operands)
        elif any(any(tensor_steps) for tensor_steps in steps):
            raise InvalidOpSpecError(
                f"kernel {self.kernel}",
                f"a loop around {spec.op} changes the addresses of its "
                "tensors, but addresses are fixed: unroll the loop, or make addresses symbolic",
            )
        self.files.append(generate_sdsc(index, parsed, ids))
        symbol_ids = f', "symbol_ids"={list(operands.values())}' if operands else ""
        self._emit(
            loops,
            f"sdscbundle.sdsc_execute ({', '.join(operands)}) "
            f'{{sdsc_filename="sdsc_{index}.json"{symbol_ids}}}',
        )

    def _parsed(self, spec: OpSpec, loops: tuple[_Loop, ...], trips: Sequence[int]) -> SDSCSpec:
        """Parse the op that is written next, for the given trip of each enclosing loop."""
        tile = select_tile(spec, make_trips([loop.spec for loop in loops], trips))
        return parse_op_spec(tile, self.sticks[len(self.files)])

    def _bind(
        self,
        parsed: SDSCSpec,
        steps: Sequence[Sequence[int]],
        loops: tuple[_Loop, ...],
        operands: dict[str, int],
    ) -> dict[int, list[int]]:
        """Return the symbol ids of each tensor per core, and add their addresses to `operands`."""
        assigned: dict[tuple[str, tuple[int, ...]], int] = {}
        ids: dict[int, list[int]] = {}
        for position, arg in enumerate(parsed.args):
            if arg.memory_space == "lx":
                continue
            ids[position] = []
            for start in arg.starts:
                name = self._table.base_address(arg, start)
                key = (name, tuple(steps[position]))
                if key not in assigned:
                    assigned[key] = self._table.next_id()
                    if any(steps[position]):
                        statement, name = self._table.loop_address(
                            name, steps[position], [loop.variable for loop in loops]
                        )
                        self._emit(loops, statement)
                    operands[name] = assigned[key]
                ids[position].append(assigned[key])
        return ids

    def _steps(
        self, spec: OpSpec, first: SDSCSpec, loops: tuple[_Loop, ...]
    ) -> list[tuple[int, ...]]:
        """Return, for each tensor, how many bytes each loop advances its address per trip."""
        steps_per_loop = [
            self._steps_of_loop(spec, first, loops, level) for level in range(len(loops))
        ]
        return [tuple(steps[i] for steps in steps_per_loop) for i in range(len(first.args))]

    def _steps_of_loop(
        self, spec: OpSpec, first: SDSCSpec, loops: tuple[_Loop, ...], level: int
    ) -> list[int]:
        """Return how many bytes one loop advances each tensor's address per trip."""
        last = (trip_count(loops[level].spec) or 0) - 1
        if last < 1:
            return [0] * len(first.args)
        second_trip, last_trip = (
            self._parsed(spec, loops, [0] * level + [trip] + [0] * (len(loops) - level - 1))
            for trip in (1, last)
        )
        steps = []
        for position, arg in enumerate(first.args):
            step = second_trip.args[position].starts[0] - arg.starts[0]
            distances = [
                end - begin
                for end, begin in zip(last_trip.args[position].starts, arg.starts, strict=True)
            ]
            is_uniform = all(distance == step * last for distance in distances)
            if not is_uniform or (step and arg.memory_space == "lx"):
                raise InvalidOpSpecError(
                    f"kernel {self.kernel}",
                    f"a loop advances tensor {position} of {spec.op} "
                    + (
                        "by different steps"
                        if not is_uniform
                        else "within the scratchpad, where addresses are fixed"
                    )
                    + "; unroll the loop",
                )
            steps.append(step)
        return steps

    def _emit(self, loops: tuple[_Loop, ...], line: str) -> None:
        self._lines.append("\t" * (len(loops) + 2) + line)

    def text(self) -> str:
        """Return the text of `bundle.mlir`."""
        # Fixed addresses need no parameter, but that of the pool tells that segment 0 is the pool.
        fixed_parameters = [POOL] if self.has_pool else []
        parameters = self._table.ordered_parameters() if self.is_symbolic else fixed_parameters
        signature = ", ".join(f"%{root}_base_addr: {INPUT_TYPE}" for root in parameters)
        prologue = [
            f"%{root} = sdscbundle.input_arg_extract value from %{root}_base_addr : "
            f"{INPUT_TYPE} -> index"
            for root in parameters
            if self.is_symbolic
        ]
        if self._bounds:
            prologue += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
        prologue += [
            f"%loop_bound_{loop_index} = arith.constant {count} : index"
            for loop_index, count in enumerate(self._bounds)
        ]
        lines = [
            *self._table.map_definitions(),
            "module {",
            f"\tfunc.func @sdsc_bundle({signature}) {{",
            *(f"\t\t{line}" for line in [*prologue, *self._table.definitions]),
            *self._lines,
            "\t\treturn",
            "\t}",
            "}",
        ]
        return "\n".join(lines) + "\n"
