"""Writes every form of a kernel, from loop IR to program and timing, into one folder."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.programs import module_for, program_for
from torch_spyre._inductor.superdsc import generate_bundle
from torch_spyre.backend.execution import timing_of
from torch_spyre.errors import InvalidOpSpecError, KnobError
from torch_spyre.ktir.module import Module

_LOOP_IR_UNKNOWN = "# unknown: the wrapper of this kernel was compiled without TORCH_SPYRE_DUMP\n"


def dump(folder: str, name: str, stages: Sequence[Sequence[OpSpec]], loop_ir: str | None) -> None:
    """Write a kernel to a new folder, numbered if a kernel of the same name has been dumped."""
    try:
        _write(_new_folder(Path(folder), name), name, stages, loop_ir)
    except OSError as error:
        allowed = f"a folder that can be written to ({error})"
        raise KnobError("TORCH_SPYRE_DUMP", folder, allowed) from error


def _write(
    target: Path, name: str, stages: Sequence[Sequence[OpSpec]], loop_ir: str | None
) -> None:
    (target / "loop_ir.txt").write_text(loop_ir or _LOOP_IR_UNKNOWN)
    specs = [spec for stage in stages for spec in stage]
    (target / "opspec.txt").write_text("\n".join(map(repr, specs)) + "\n")
    functions: list[Operation] = []
    listings, timings = [], []
    for number, stage in enumerate(stages):
        kernel = f"{name}_{number}"
        module = module_for(kernel, stage)
        functions.extend(function.clone() for function in module.operation.body.block.ops)
        program = program_for(kernel, stage)
        array_bytes = [parameter.num_bytes for parameter in kernel_parameters(stage)]
        sources = [spec.origin.location if spec.origin else "" for spec in stage]
        listings.append(program.listing(sources))
        timings.append(asdict(timing_of(program, array_bytes, [])))
    (target / "ktir.mlir").write_text(str(Module(ModuleOp(functions))))
    (target / "program.txt").write_text("\n".join(listings))
    (target / "timing.json").write_text(json.dumps(timings, indent=2, default=str))
    try:
        generate_bundle(name, str(target), specs)
    except InvalidOpSpecError as error:
        # SuperDSC cannot express everything that KTIR can.
        (target / "sdsc_refused.txt").write_text(f"{error}\n")


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
