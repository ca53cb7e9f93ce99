"""Runs every kernel twice: as compiled, and as read back from its SuperDSC bundle."""

import json
from pathlib import Path

import torch

from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre._inductor.superdsc.sdsc_spec import EXTENSION_KEY
from torch_spyre.errors import BundleError


class ReadBack:
    """Creates replacements of `Runner`; `checked` counts the kernels that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checked = folder, 0

    def runner(self, name, stages):
        bundle = self.folder / f"{self.checked}_{name}"
        generate_bundle(name, bundle, [spec for stage in stages for spec in stage])
        compiled = Runner(name, stages)
        read = Runner(f"{name}_read_back", import_programs(bundle))
        return _ComparingRunner(self, compiled, read)


class _ComparingRunner:
    def __init__(self, owner: ReadBack, compiled: Runner, read: Runner) -> None:
        self.owner, self.compiled, self.read = owner, compiled, read
        self.time_ps = compiled.time_ps

    def for_nodes(self, nodes) -> "_ComparingRunner":
        return self

    def run(self, *tensors: torch.Tensor) -> None:
        original = [tensor.cpu() for tensor in tensors]
        self.read.run(*tensors)
        actual_bits = [bits(tensor) for tensor in tensors]
        for tensor, value, actual in zip(tensors, original, actual_bits, strict=True):
            if not torch.equal(actual, bits(value)):
                tensor.copy_(value)
        self.compiled.run(*tensors)
        for actual, expected in zip(actual_bits, map(bits, tensors), strict=True):
            assert torch.equal(actual, expected), (self.compiled.name, actual, expected)
        self.owner.checked += 1


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU copy of the tensor, viewed as integers of the same width."""
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.cpu().contiguous().view(widths[tensor.element_size()])


class PublicReadBack(ReadBack):
    """Like `ReadBack`, but reads the public keys only; `rejections` are messages of the reader."""

    def __init__(self, folder: Path, symbolic_args: bool | None = None) -> None:
        super().__init__(folder)
        self.symbolic_args = symbolic_args
        self.rejections: list[str] = []

    def runner(self, name, stages):
        compiled = Runner(name, stages)
        bundle = self.folder / f"{self.checked}_{len(self.rejections)}_{name}"
        specs = [spec for stage in stages for spec in stage]
        generate_bundle(name, bundle, specs, symbolic_args=self.symbolic_args)
        remove_extensions(bundle)
        try:
            programs = import_programs(bundle)
        except BundleError as error:
            self.rejections.append(str(error))
            return compiled
        return _ComparingRunner(self, compiled, Runner(f"{name}_read_back", programs))


def remove_extensions(folder: Path) -> None:
    """Remove our keys from all files of a bundle."""
    for path in folder.glob("sdsc_*.json"):
        path.write_text(json.dumps(without_extensions(json.loads(path.read_text()))))


def without_extensions(value):
    """Return a JSON value without our keys."""
    if isinstance(value, dict):
        return {
            key: without_extensions(item) for key, item in value.items() if key != EXTENSION_KEY
        }
    return [without_extensions(item) for item in value] if isinstance(value, list) else value
