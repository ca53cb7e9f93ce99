"""A kernel that is verified whenever it runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from torch_spyre import _C, knobs
from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.verification.comparison import Divergence, check
from torch_spyre._inductor.verification.interpreter import Interpreter
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.pass_checks import (
    PassHistory,
    find_guilty_pass,
    history_of,
    images_of,
)
from torch_spyre._inductor.verification.report import error_of, error_of_pass
from torch_spyre.debugging import verification
from torch_spyre.errors import NoReferenceError

Stages = Sequence[Sequence[OpSpec]]
Run = Callable[..., None]


class VerifiedKernel:
    """Runs a kernel, waits for it, and compares its outputs with their bounds."""

    def __init__(
        self,
        name: str,
        stages: Stages,
        run: Run,
        computes: Sequence[str],
        folder: Path | None = None,
    ) -> None:
        self.name, self.stages, self.run, self.computes = name, stages, run, computes
        self.folder = folder
        verification.summary().kernels += 1
        self.history: PassHistory | None = None
        if knobs.execution.verify_passes:
            self.history = history_of(stages)
            if self.history is None:
                verification.count_unverified(name, "passes: it was not compiled in this process")

    def __call__(self, *tensors: torch.Tensor) -> None:
        if knobs.emulator.mode == "timing":
            self.run(*tensors)
            verification.count_unverified(self.name, "SPYRE_EMU_MODE=timing computes no results")
            return
        before = device_contents(tensors)
        images = self._images(tensors)
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
            error = error_of(
                self.name, self.stages, self.computes, tensors, before, index, worst, self.folder
            )
            verification.summary().divergences.append(error)
            raise error
        if self.history is not None and images is not None:
            self._check_passes(self.history, images, tensors)

    def _images(self, tensors: Sequence[torch.Tensor]) -> Mapping[str, torch.Tensor] | None:
        return None if self.history is None else images_of(self.history.forms[-1][1], tensors)

    def _check_passes(
        self,
        history: PassHistory,
        before: Mapping[str, torch.Tensor],
        tensors: Sequence[torch.Tensor],
    ) -> None:
        """Raise the error for a pass that has changed the results."""
        try:
            guilty = find_guilty_pass(history, before, images_of(history.forms[-1][1], tensors))
        except NoReferenceError as failure:
            verification.count_unverified(self.name, f"passes: {failure.reason}")
            return
        if guilty is not None:
            error = error_of_pass(self.name, self.computes, guilty, self.folder)
            verification.summary().divergences.append(error)
            raise error

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
