"""Helpers for tests of the lowering: compile a text, with and without the optimising passes."""

from contextlib import contextmanager

import pytest

from torch_spyre import ktir
from torch_spyre.backend.lowering import compile_function, kernel
from torch_spyre.backend.lowering.nodes import regions_of, yielded_by
from torch_spyre.backend.lowering.scratchpad_allocation import Allocation
from torch_spyre.cards import load_card


def compiled(text, known=None, arrays=None, function=None):
    """Return the program of the function with this name, or of the first function."""
    module = ktir.load(text)
    kernel_function = (
        module.functions[function] if function else next(iter(module.functions.values()))
    )
    names = [argument.name for argument in kernel_function.arguments]
    return compile_function(
        kernel_function.operation,
        names,
        kernel_function.grid,
        module.source,
        load_card(),
        known=known or {},
        arrays=arrays,
    )


def nodes_before(pass_name, text):
    """Return the nodes that a pass receives: `fuse`, `coalesce` or `allocate`."""
    passes = {
        "fuse": kernel.fusion,
        "coalesce": kernel.coalescing,
        "allocate": kernel.scratchpad_allocation,
    }
    module = passes[pass_name]
    original = getattr(module, pass_name)
    calls = []

    def spy(nodes, *options):
        calls.append(nodes)
        return original(nodes, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, pass_name, spy)
        compiled(text)
    (nodes,) = calls
    return nodes


@contextmanager
def without_passes():
    """Disable the passes: no op is fused, no copy is removed, no buffers share an address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.fusion, "fuse", lambda nodes: nodes)
        patch.setattr(kernel.coalescing, "coalesce", lambda nodes: nodes)
        patch.setattr(kernel.scratchpad_allocation, "allocate", allocate_separately)
        yield


def allocate_separately(nodes, _capacity):
    addresses, end = {}, 0
    for buffer in dict.fromkeys(buffers_of(nodes)):
        addresses[buffer] = end
        end += buffer.bytes
    return Allocation(addresses, end, ())


def buffers_of(nodes):
    """Yield the buffers that nodes and their regions access."""
    for node in nodes:
        yield from node.reads()
        yield from node.writes()
        yield from yielded_by(node)
        for region in regions_of(node):
            yield from buffers_of(region)
