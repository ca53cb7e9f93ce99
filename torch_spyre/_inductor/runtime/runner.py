"""A compiled bundle: called with its tensors, it queues its programs on the card."""

from collections.abc import Sequence

from torch_spyre import _C, knobs
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.dump import dump
from torch_spyre._inductor.runtime.programs import held_bytes, program_for
from torch_spyre._inductor.to_ktir.kernel import parameters
from torch_spyre.backend.execution import conflicts, timing_of


class Runner:
    """`run` takes the bundle's arguments in order: inputs and outputs alike."""

    def __init__(
        self, name: str, stages: Sequence[Sequence[OpSpec]], loops: str | None = None
    ) -> None:
        self.name = name
        if knobs.logging.dump is not None:
            dump(knobs.logging.dump, name, stages, loops)
        scratch: dict[str, int] = {}
        made = [self._stage(position, specs, scratch) for position, specs in enumerate(stages)]
        self.bundle = _C.Bundle(name, made, list(scratch.values()), _argument_count(stages))
        self.run = self.bundle.run

    def _stage(
        self, position: int, specs: Sequence[OpSpec], scratch: dict[str, int]
    ) -> "_C.BundleStage":
        program = program_for(f"{self.name}_{position}", specs)
        names, held = parameters(specs), held_bytes(specs)
        slots = []
        for name, size in zip(names, held, strict=True):
            if name.startswith("pool_"):
                scratch[name] = max(scratch.get(name, 0), size)
                slots.append(-1 - list(scratch).index(name))
            else:
                slots.append(int(name.removeprefix("arg")))
        timing = timing_of(program, held, [])
        together = [0] * len(held)
        return (
            program.file,
            slots,
            held,
            timing.time_ps,
            timing.ddr_read_bytes,
            timing.ddr_write_bytes,
            conflicts(program, held),
            conflicts(program, held, together),
        )


def _argument_count(stages: Sequence[Sequence[OpSpec]]) -> int:
    numbers = (arg.arg_index for specs in stages for spec in specs for arg in spec.args)
    return 1 + max(numbers, default=-1)
