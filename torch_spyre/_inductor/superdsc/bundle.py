"""A kernel's directory: a SuperDSC file for each op, and `bundle.mlir`, which runs them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sympy import Symbol

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, flat
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc.emission import generate_sdsc
from torch_spyre._inductor.superdsc.parsing import parse_op_spec
from torch_spyre._inductor.superdsc.pool import with_pool_offsets
from torch_spyre._inductor.superdsc.programs import sticks_of_each
from torch_spyre._inductor.superdsc.records import SDSCSpec
from torch_spyre._inductor.superdsc.segments import have_addresses, with_argument_addresses
from torch_spyre._inductor.superdsc.symbols import INPUT_TYPE, SymbolTable
from torch_spyre._inductor.superdsc.unrolling import (
    on_tile,
    trip_count,
    trips_of,
    unroll_loop_specs,
)

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

    Loops are written out trip by trip, or kept; addresses are fixed, or parameters of the bundle.
    Both follow the knobs unless given. Arguments that share an address were not placed yet, and are
    placed here, as are tensors that share a place in the pool. Ops that the card cannot do are left
    out: whoever runs the kernel refuses it.
    """
    unroll = knobs.bundles.unroll_loops if unroll_loops is None else unroll_loops
    symbolic = knobs.bundles.symbolic_args if symbolic_args is None else symbolic_args
    specs = with_pool_offsets(specs)
    if not have_addresses(specs):
        specs = with_argument_addresses(specs)
    specs = unroll_loop_specs(specs) if unroll else specs
    sticks = sticks_of_each([spec for spec in flat(specs) if isinstance(spec, OpSpec)])
    writer = _Writer(kernel_name, symbolic, sticks)
    writer.write(specs, ())
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(SDSC_FILES):
        old.unlink()
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
    symbolic: bool
    # Of each op, in order: see `common_sticks`.
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
                f"kernel {self.kernel}: a loop of {spec.count} trips cannot be written: its count "
                "is not a number"
            )
        number = len(self._bounds)
        self._bounds.append(count)
        variable = f"%i_{number}"
        self._emit(loops, f"scf.for {variable} = %c0 to %loop_bound_{number} step %c1 {{")
        self.write(spec.body, (*loops, _Loop(spec, variable)))
        self._emit(loops, "}")

    def _write_op(self, spec: OpSpec, loops: tuple[_Loop, ...]) -> None:
        index = len(self.files)
        parsed = self._parsed(spec, loops, [0] * len(loops))
        steps = self._steps(spec, parsed, loops)
        ids: dict[int, list[int]] = {}
        operands: dict[str, int] = {}
        if self.symbolic:
            ids = self._bind(parsed, steps, loops, operands)
        elif any(any(each) for each in steps):
            raise InvalidOpSpecError(
                f"kernel {self.kernel}: a loop around {spec.op} moves its tensors, and fixed "
                "addresses cannot move: unroll the loop, or make addresses symbolic"
            )
        self.files.append(generate_sdsc(index, parsed, ids))
        listed = f', "symbol_ids"={list(operands.values())}' if operands else ""
        self._emit(
            loops,
            f"sdscbundle.sdsc_execute ({', '.join(operands)}) "
            f'{{sdsc_filename="sdsc_{index}.json"{listed}}}',
        )

    def _parsed(self, spec: OpSpec, loops: tuple[_Loop, ...], trips: Sequence[int]) -> SDSCSpec:
        """The op that is written next, at these trips of the loops around it."""
        tile = on_tile(spec, trips_of([loop.spec for loop in loops], trips))
        return parse_op_spec(tile, self.sticks[len(self.files)])

    def _bind(
        self,
        parsed: SDSCSpec,
        steps: Sequence[Sequence[int]],
        loops: tuple[_Loop, ...],
        operands: dict[str, int],
    ) -> dict[int, list[int]]:
        """Ids for each tensor and core; `operands` gets the address of each id."""
        known: dict[tuple[str, tuple[int, ...]], int] = {}
        ids: dict[int, list[int]] = {}
        for position, arg in enumerate(parsed.args):
            if arg.place == "lx":
                continue
            ids[position] = []
            for start in arg.starts:
                name = self._table.base(arg, start)
                key = (name, tuple(steps[position]))
                if key not in known:
                    known[key] = self._table.next_id()
                    if any(steps[position]):
                        statement, name = self._table.advancing(
                            name, steps[position], [loop.variable for loop in loops]
                        )
                        self._emit(loops, statement)
                    operands[name] = known[key]
                ids[position].append(known[key])
        return ids

    def _steps(
        self, spec: OpSpec, first: SDSCSpec, loops: tuple[_Loop, ...]
    ) -> list[tuple[int, ...]]:
        """For each tensor, the bytes that a trip of each loop moves it."""
        columns = [self._steps_of_loop(spec, first, loops, level) for level in range(len(loops))]
        return [tuple(column[i] for column in columns) for i in range(len(first.args))]

    def _steps_of_loop(
        self, spec: OpSpec, first: SDSCSpec, loops: tuple[_Loop, ...], level: int
    ) -> list[int]:
        last = (trip_count(loops[level].spec) or 0) - 1
        if last < 1:
            return [0] * len(first.args)
        at_one, at_last = (
            self._parsed(spec, loops, [0] * level + [trip] + [0] * (len(loops) - level - 1))
            for trip in (1, last)
        )
        steps = []
        for position, arg in enumerate(first.args):
            step = at_one.args[position].starts[0] - arg.starts[0]
            moved = [
                end - begin
                for end, begin in zip(at_last.args[position].starts, arg.starts, strict=True)
            ]
            is_even = all(each == step * last for each in moved)
            if not is_even or (step and arg.place == "lx"):
                raise InvalidOpSpecError(
                    f"kernel {self.kernel}: a loop moves tensor {position} of {spec.op} "
                    + (
                        "by uneven steps"
                        if not is_even
                        else "within the scratchpad, where addresses are fixed"
                    )
                    + "; unroll the loop"
                )
            steps.append(step)
        return steps

    def _emit(self, loops: tuple[_Loop, ...], line: str) -> None:
        self._lines.append("\t" * (len(loops) + 2) + line)

    def text(self) -> str:
        parameters = self._table.ordered_parameters()
        signature = ", ".join(f"%{root}_base_addr: {INPUT_TYPE}" for root in parameters)
        prologue = [
            f"%{root} = sdscbundle.input_arg_extract value from %{root}_base_addr : "
            f"{INPUT_TYPE} -> index"
            for root in parameters
        ]
        if self._bounds:
            prologue += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
        prologue += [
            f"%loop_bound_{number} = arith.constant {count} : index"
            for number, count in enumerate(self._bounds)
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
