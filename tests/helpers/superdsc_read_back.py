"""Runs every kernel twice: as it was compiled, and as it is read back from its SuperDSC bundle."""

from pathlib import Path

import torch

from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs


class ReadBack:
    """Makes runners that take the place of `Runner`; `checked` counts the kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checked = folder, 0

    def runner(self, name, stages):
        bundle = self.folder / f"{self.checked}_{name}"
        generate_bundle(name, bundle, [spec for stage in stages for spec in stage])
        compiled = Runner(name, stages)
        read = Runner(f"{name}_read_back", import_programs(bundle))
        return _Both(self, compiled, read)


class _Both:
    def __init__(self, owner: ReadBack, compiled: Runner, read: Runner) -> None:
        self.owner, self.compiled, self.read = owner, compiled, read

    def run(self, *tensors: torch.Tensor) -> None:
        before = [each.cpu() for each in tensors]
        self.read.run(*tensors)
        found = [bits(each) for each in tensors]
        for tensor, value, changed in zip(tensors, before, found, strict=True):
            if not torch.equal(changed, bits(value)):
                tensor.copy_(value)
        self.compiled.run(*tensors)
        for one, other in zip(found, map(bits, tensors), strict=True):
            assert torch.equal(one, other), (self.compiled.name, one, other)
        self.owner.checked += 1


def bits(tensor: torch.Tensor) -> torch.Tensor:
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.cpu().contiguous().view(widths[tensor.element_size()])
