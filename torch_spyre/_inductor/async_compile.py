"""What generated wrappers call to make kernels of the OpSpecs in their text."""

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch._inductor.async_compile import AsyncCompile

from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, Spec, UnimplementedOp, flat
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc.programs import programs_of, with_scratchpad_names
from torch_spyre._inductor.superdsc.unrolling import unroll_loop_specs
from torch_spyre.cards import load_card
from torch_spyre.errors import UnimplementedOpError
from torch_spyre.logging_config import get_logger

logger = get_logger(__name__)


class SpyreAsyncCompile(AsyncCompile):
    """Inductor's, so that graphs with kernels for the CPU work too, and ours."""

    def sdsc(
        self,
        name: str,
        specs: Sequence[Sequence[OpSpec]] | Sequence[Spec],
        loops: str | None = None,
    ) -> "Runner | RefusedKernel":
        """A kernel of programs; or of ops by hand, which are checked and cut into programs."""
        stages: list[Sequence[OpSpec]] = []
        by_hand: list[Spec] = []
        for each in specs:
            if isinstance(each, OpSpec | LoopSpec | UnimplementedOp):
                by_hand.append(each)
            else:
                stages.append(each)
        missing = [each.op for each in flat(by_hand) if isinstance(each, UnimplementedOp)]
        if missing:
            logger.warning("kernel %s contains unimplemented operation %s", name, missing[0])
            return RefusedKernel(name, missing[0])
        if by_hand:
            validate(by_hand, load_card().compute.cores)
            ops = [each for each in unroll_loop_specs(by_hand) if isinstance(each, OpSpec)]
            stages.extend(programs_of(with_scratchpad_names(ops)))
        return Runner(name, stages, loops)


class RefusedKernel:
    """Stands for a kernel with an op that the card cannot do: an error only if it is run."""

    def __init__(self, name: str, op: str) -> None:
        self.name, self.op = name, op

    def run(self, *tensors: torch.Tensor) -> NoReturn:
        raise UnimplementedOpError(self.name, self.op)
