"""A fixture that records the kernels of a compiled function."""

from dataclasses import dataclass, field

import pytest
import torch
from cpu_reference import to_card

from torch_spyre._inductor import driver


@dataclass
class Kernels:
    """The programs of the last compilation in execution order, each a list of OpSpecs."""

    names: list[str] = field(default_factory=list)
    programs: list[list] = field(default_factory=list)

    @property
    def ops(self):
        """The op names of each program."""
        return [[spec.op for spec in program] for program in self.programs]

    @property
    def specs(self):
        return [spec for program in self.programs for spec in program]

    def named(self, op):
        return [spec for spec in self.specs if spec.op == op]

    def compile(self, function, *tensors):
        """Compile a function and run it on copies of the tensors on the card."""
        self.names.clear()
        self.programs.clear()
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=False):
            return torch.compile(function)(*to_card(tensors))


@pytest.fixture
def compiled_kernels(monkeypatch):
    kernels = Kernels()

    class RecordingRunner(driver.Runner):
        def __init__(self, name, stages):
            kernels.names.append(name)
            kernels.programs.extend(map(list, stages))
            super().__init__(name, stages)

    monkeypatch.setattr(driver, "Runner", RecordingRunner)
    return kernels
