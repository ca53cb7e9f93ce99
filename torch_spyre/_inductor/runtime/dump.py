"""Writes every form of a kernel, from loop IR to program and timing, into one folder."""

import json
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from torch_spyre import knobs
from torch_spyre._inductor.kernel_parameters import kernel_parameters, num_arguments
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.dump_division import division_entry
from torch_spyre._inductor.runtime.dump_timing import ideal_cycles, timing_entry
from torch_spyre._inductor.runtime.kernel_record import ArrayRecord, KernelRecord, StageRecord
from torch_spyre._inductor.runtime.programs import compile_stage
from torch_spyre._inductor.runtime.replay_script import replay_script
from torch_spyre._inductor.superdsc import generate_bundle
from torch_spyre.backend.execution import timing_of
from torch_spyre.cards import load_card
from torch_spyre.dumped_programs import Stage, save_programs
from torch_spyre.errors import InvalidOpSpecError, KnobError
from torch_spyre.ktir.module import Module

_LOOP_IR_UNKNOWN = "# unknown: the kernel was loaded from OpSpecs alone\n"

Stages = Sequence[Sequence[OpSpec]]


def dump(
    folder: str, name: str, stages: Stages, loop_ir: str | None, user_ops: Sequence[str] = ()
) -> Path:
    """Write a kernel to a new folder, numbered if a kernel of the same name has been dumped.

    Return that folder.
    """
    try:
        target = _new_folder(Path(folder), name)
        _write(target, name, stages, loop_ir)
        _record(name, stages, user_ops).save(target)
        (target / "replay.py").write_text(replay_script(name))
        return target
    except OSError as error:
        allowed = f"a folder that can be written to ({error})"
        raise KnobError("TORCH_SPYRE_DUMP", folder, allowed) from error


def _write(target: Path, name: str, stages: Stages, loop_ir: str | None) -> None:
    (target / "loop_ir.txt").write_text(loop_ir or _LOOP_IR_UNKNOWN)
    specs = [spec for stage in stages for spec in stage]
    (target / "opspec.txt").write_text("\n".join(map(repr, specs)) + "\n")
    functions: list[Operation] = []
    listings, timings, divisions, cycles, saved = [], [], [], [], []
    for number, stage in enumerate(stages):
        kernel = f"{name}_{number}"
        compiled = compile_stage(kernel, stage)
        functions.extend(function.clone() for function in compiled.module.operation.body.block.ops)
        array_bytes = [parameter.num_bytes for parameter in kernel_parameters(stage)]
        timing = timing_of(compiled.program, array_bytes, [])
        sources = [spec.origin.location if spec.origin else "" for spec in stage]
        index_sources = [spec.index_origin.location if spec.index_origin else "" for spec in stage]
        listings.append(compiled.program.listing(sources, index_sources))
        timings.append(timing_entry(kernel, number, stage, knobs.device.card, timing))
        cycles.append(ideal_cycles(kernel, stage, timing))
        divisions.append(
            division_entry(kernel, number, stage, compiled.tile_budget, compiled.program)
        )
        saved.append(Stage(kernel, array_bytes, [spec.op for spec in stage]))
    (target / "ktir.mlir").write_text(str(Module(ModuleOp(functions))))
    save_programs(target, saved)
    (target / "program.txt").write_text("\n".join(listings))
    _write_json(target / "timing.json", timings)
    _write_json(target / "division.json", divisions)
    (target / "perf").mkdir()
    _write_json(target / "perf" / "ideal_cycles.json", cycles)
    try:
        generate_bundle(name, str(target), specs)
    except InvalidOpSpecError as error:
        # SuperDSC cannot express everything that KTIR can.
        (target / "sdsc_refused.txt").write_text(f"{error}\n")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, default=str) + "\n")


def _record(name: str, stages: Stages, user_ops: Sequence[str]) -> KernelRecord:
    return KernelRecord(
        name,
        list(user_ops),
        knobs.device.card,
        load_card().digest,
        knobs.emulator.fp16,
        num_arguments(stages),
        [
            StageRecord(
                f"{name}_{number}",
                [spec.op for spec in stage],
                [
                    ArrayRecord(parameter.name, parameter.num_bytes, parameter.argument_index)
                    for parameter in kernel_parameters(stage)
                ],
            )
            for number, stage in enumerate(stages)
        ],
    )


def _new_folder(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        target = folder / (f"{name}_{number}" if number else name)
        try:
            target.mkdir()
        except FileExistsError:
            number += 1
            continue
        return target
