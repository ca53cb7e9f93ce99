"""Loads kernels from the OpSpecs in the source of generated wrappers."""

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch._inductor.async_compile import AsyncCompile

from torch_spyre._inductor.driver import load_kernel
from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, UnimplementedOp, flat
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.provenance import SpecNodes, from_nodes, with_origins
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc.programs import split_into_programs
from torch_spyre._inductor.superdsc.scratchpad_allocation import with_scratchpad_names
from torch_spyre._inductor.superdsc.unrolling import unroll_loop_specs
from torch_spyre.cards import load_card
from torch_spyre.errors import UnimplementedOpError
from torch_spyre.logging_config import get_logger

logger = get_logger("torch_spyre.inductor.codegen")


class SpyreAsyncCompile(AsyncCompile):
    """Extends Inductor's class, so that graphs with kernels for the CPU work too."""

    def sdsc(
        self,
        name: str,
        specs: Sequence[Sequence[OpSpec]] | Sequence[Spec],
        *,
        nodes: Sequence[Sequence[SpecNodes]] = (),
        loop_ir: str | None = None,
        user_ops: Sequence[str] = (),
    ) -> "Runner | UnimplementedKernel":
        """Return the kernel of stages, or of hand-written specs: these are validated and split.

        `nodes` are the names of the graph's nodes that the specs of each stage come from; `loop_ir`
        and `user_ops` are those of `load_kernel`.
        """
        stages: list[Sequence[OpSpec]] = []
        hand_written: list[Spec] = []
        for entry in specs:
            if isinstance(entry, OpSpec | LoopSpec | UnimplementedOp):
                hand_written.append(entry)
            else:
                stages.append(entry)
        missing = [spec.op for spec in flat(hand_written) if isinstance(spec, UnimplementedOp)]
        if missing:
            logger.warning("kernel %s contains unimplemented operation %s", name, missing[0])
            return UnimplementedKernel(name, missing[0])
        if hand_written:
            validate(hand_written, load_card().compute.cores)
            ops = [spec for spec in unroll_loop_specs(hand_written) if isinstance(spec, OpSpec)]
            stages.extend(split_into_programs(with_scratchpad_names(ops)))
        if nodes:
            stages = [from_nodes(*stage) for stage in zip(stages, nodes, strict=True)]
        loops = None if loop_ir is None else with_origins(loop_ir)
        return load_kernel(name, stages, loops, user_ops)


class UnimplementedKernel:
    """A kernel with an op that the card does not implement. Running it raises an error."""

    def __init__(self, name: str, op: str) -> None:
        self.name, self.op = name, op

    def run(self, *tensors: torch.Tensor) -> NoReturn:
        raise UnimplementedOpError(self.name, self.op)
