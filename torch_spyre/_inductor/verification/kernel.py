"""A kernel that is verified whenever it runs."""

from collections.abc import Callable, Mapping, Sequence

import torch

from torch_spyre import _C, knobs
from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.verification.comparison import Divergence, check
from torch_spyre._inductor.verification.interpreter import Interpreter
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.report import error_of
from torch_spyre.debugging import verification

Stages = Sequence[Sequence[OpSpec]]
Run = Callable[..., None]


class VerifiedKernel:
    """Runs a kernel, waits for it, and compares its outputs with their bounds."""

    def __init__(self, name: str, stages: Stages, run: Run, computes: Sequence[str]) -> None:
        self.name, self.stages, self.run, self.computes = name, stages, run, computes
        verification.summary().kernels += 1

    def __call__(self, *tensors: torch.Tensor) -> None:
        if knobs.emulator.mode == "timing":
            self.run(*tensors)
            verification.count_unverified(self.name, "SPYRE_EMU_MODE=timing computes no results")
            return
        before = device_contents(tensors)
        self.run(*tensors)
        after = device_contents(tensors)
        memories = memories_of(self.stages, before)
        interpreter = Interpreter(memories)
        interpreter.run(self.stages)
        for reason in dict.fromkeys(f"{u.op}: {u.reason}" for u in interpreter.unverified):
            verification.count_unverified(self.name, reason)
        divergence = self._compare(memories, after)
        verification.summary().launches += 1
        if divergence is not None:
            index, worst = divergence
            raise error_of(self.name, self.stages, self.computes, tensors, before, index, worst)

    def _compare(
        self, memories: Mapping[str, Memory], after: Sequence[torch.Tensor]
    ) -> tuple[int, Divergence] | None:
        """Return the first argument that diverges; None if none does."""
        summary = verification.summary()
        checked: set[int] = set()
        first: tuple[int, Divergence] | None = None
        for index, content in enumerate(after):
            memory = memories.get(f"arg{index}")
            if memory is None or id(memory) in checked:
                continue
            checked.add(id(memory))
            result = check(memory, content)
            summary.elements += result.num_elements
            summary.unbounded_elements += result.num_unbounded
            if result.divergence is not None and first is None:
                first = index, result.divergence
        return first


def device_contents(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the bytes of the memory of each tensor, one object for tensors that share memory."""
    contents: dict[int, torch.Tensor] = {}
    result = []
    for tensor in tensors:
        storage = tensor.untyped_storage()._cdata
        if storage not in contents:
            contents[storage] = _C._device_bytes(tensor)
        result.append(contents[storage])
    return result


def memories_of(stages: Stages, contents: Sequence[torch.Tensor]) -> dict[str, Memory]:
    """Return the memory of each parameter of the stages; arguments have these contents."""
    shared = {id(content): Memory(content) for content in contents}
    memories: dict[str, Memory] = {}
    scratch: dict[str, int] = {}
    for specs in stages:
        for parameter in kernel_parameters(specs):
            if parameter.argument_index is not None:
                memories[parameter.name] = shared[id(contents[parameter.argument_index])]
            else:
                known = scratch.get(parameter.name, 0)
                scratch[parameter.name] = max(known, parameter.num_bytes)
    memories.update((name, Memory(None, num_bytes)) for name, num_bytes in scratch.items())
    return memories
