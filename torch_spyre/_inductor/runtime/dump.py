"""Writes what the compiler made of a kernel, stage by stage, into a folder of its own."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.runtime.programs import held_bytes, module_for, program_for
from torch_spyre._inductor.superdsc import generate_bundle
from torch_spyre.backend.execution import timing_of
from torch_spyre.errors import KnobError
from torch_spyre.ktir.module import Module

_NOT_KNOWN = "# not known: the wrapper of this kernel was compiled without TORCH_SPYRE_DUMP\n"


def dump(folder: str, name: str, stages: Sequence[Sequence[OpSpec]], loops: str | None) -> None:
    """One folder per kernel; a kernel that is made again gets another number."""
    try:
        _write(_fresh(Path(folder), name), name, stages, loops)
    except OSError as error:
        allowed = f"a folder that can be written to ({error})"
        raise KnobError("TORCH_SPYRE_DUMP", folder, allowed) from error


def _write(target: Path, name: str, stages: Sequence[Sequence[OpSpec]], loops: str | None) -> None:
    (target / "loop_ir.txt").write_text(loops or _NOT_KNOWN)
    specs = [spec for stage in stages for spec in stage]
    (target / "opspec.txt").write_text("\n".join(map(repr, specs)) + "\n")
    functions: list[Operation] = []
    listings, timings = [], []
    for number, stage in enumerate(stages):
        kernel = f"{name}_{number}"
        module = module_for(kernel, stage)
        functions.extend(each.clone() for each in module.operation.body.block.ops)
        program = program_for(kernel, stage)
        listings.append(program.listing())
        timings.append(asdict(timing_of(program, held_bytes(stage), [])))
    (target / "ktir.mlir").write_text(str(Module(ModuleOp(functions))))
    (target / "program.txt").write_text("\n".join(listings))
    (target / "timing.json").write_text(json.dumps(timings, indent=2, default=str))
    try:
        generate_bundle(name, str(target), specs)
    except InvalidOpSpecError as error:
        # SuperDSC cannot say everything that KTIR can.
        (target / "sdsc_refused.txt").write_text(f"{error}\n")


def _fresh(folder: Path, name: str) -> Path:
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
