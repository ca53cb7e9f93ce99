"""The kernels that compiling a function makes, as the wrapper asks for them."""

from dataclasses import dataclass, field

import pytest
import torch
from comparing import on_card

from torch_spyre._inductor import driver


@dataclass
class Kernels:
    """Programs in the order in which they run, each a list of OpSpecs; calls compile anew."""

    names: list[str] = field(default_factory=list)
    programs: list[list] = field(default_factory=list)

    @property
    def ops(self):
        """The operations of each program."""
        return [[spec.op for spec in program] for program in self.programs]

    @property
    def specs(self):
        return [spec for program in self.programs for spec in program]

    def named(self, op):
        return [spec for spec in self.specs if spec.op == op]

    def of(self, function, *tensors):
        """What the compiled function gives for tensors of the host, put on the card."""
        self.names.clear()
        self.programs.clear()
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=False):
            return torch.compile(function)(*on_card(tensors))


@pytest.fixture
def kernels_made(monkeypatch):
    found = Kernels()

    class Noted(driver.Runner):
        def __init__(self, name, stages):
            found.names.append(name)
            found.programs.extend(map(list, stages))
            super().__init__(name, stages)

    monkeypatch.setattr(driver, "Runner", Noted)
    return found
