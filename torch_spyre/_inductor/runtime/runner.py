"""A compiled bundle: called with its tensors, it queues its programs on the card."""

from collections.abc import Sequence

import torch

from torch_spyre import _C
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.programs import array_bytes, program_for
from torch_spyre._inductor.to_ktir.access import parameter
from torch_spyre._inductor.to_ktir.kernel import parameters
from torch_spyre.backend.execution import _counts, _loaded, timing_of
from torch_spyre.backend.launch import LaunchCost, launch


class Runner:
    """`run` takes the bundle's arguments in order: inputs and outputs alike."""

    def __init__(self, name: str, stages: Sequence[Sequence[OpSpec]]) -> None:
        self.name = name
        self.pool: dict[str, int] = {}
        self.stages = [self._stage(position, specs) for position, specs in enumerate(stages)]

    def _stage(self, position: int, specs: Sequence[OpSpec]):
        program = program_for(f"{self.name}_{position}", specs)
        names = parameters(specs)
        sizes: dict[str, int] = {}
        for spec in specs:
            for arg in spec.args:
                if not arg.in_scratchpad:
                    sizes[parameter(arg)] = array_bytes(arg)
        for name in names:
            if name.startswith("pool_"):
                self.pool[name] = sizes[name]
        total = [sizes[name] for name in names]
        timing = timing_of(program, total, [])
        cost = LaunchCost(timing.time_ps, timing.ddr_read_bytes, timing.ddr_write_bytes)
        ordered = _counts(program, total, [])["conflict"]
        return program, names, total, cost, ordered

    def run(self, *tensors: torch.Tensor) -> None:
        device = tensors[0].device
        memory = {f"arg{index}": _base(tensor) for index, tensor in enumerate(tensors)}
        for name, size in self.pool.items():
            memory[name] = torch.empty(size // 2, dtype=torch.float16, device=device)
        for program, names, sizes, cost, ordered in self.stages:
            launch(
                _loaded(program),
                [memory[name] for name in names],
                sizes,
                cost=cost,
                ordered=ordered,
            )


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.storage_offset() == 0 else tensor.as_strided((1,), (1,), 0)


__all__ = ["Runner", "_C"]
