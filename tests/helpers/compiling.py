"""What tests of the lowering share: compiling a text, with and without the optimising passes."""

from contextlib import contextmanager

import pytest

from torch_spyre import ktir
from torch_spyre.backend.lowering import compile_function, kernel
from torch_spyre.backend.lowering.nodes import regions_of, yielded_by
from torch_spyre.backend.lowering.placement import Placement
from torch_spyre.cards import load_card


def compiled(text, known=None, arrays=None, function=None):
    """The program of the only function of a text, or of the one named."""
    module = ktir.load(text)
    found = module.functions[function] if function else next(iter(module.functions.values()))
    names = [argument.name for argument in found.arguments]
    return compile_function(
        found.operation,
        names,
        found.grid,
        module.source,
        load_card(),
        known=known or {},
        arrays=arrays,
    )


def nodes_of(text, until="fuse"):
    """The nodes that a pass is given: `fuse`, `coalesce` or `place`."""
    passes = {
        "fuse": (kernel.fusion, "fuse"),
        "coalesce": (kernel.coalescing, "coalesce"),
        "place": (kernel.placement, "place"),
    }
    module, name = passes[until]
    original = getattr(module, name)
    seen = []

    def spy(nodes, *options):
        seen.append(nodes)
        return original(nodes, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, spy)
        compiled(text)
    (nodes,) = seen
    return nodes


@contextmanager
def without_passes():
    """Every op alone, every copy made, every buffer at an address of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.fusion, "fuse", lambda nodes: nodes)
        patch.setattr(kernel.coalescing, "coalesce", lambda nodes: nodes)
        patch.setattr(kernel.placement, "place", apart)
        yield


def apart(nodes, _capacity):
    addresses, end = {}, 0
    for buffer in dict.fromkeys(buffers_of(nodes)):
        addresses[buffer] = end
        end += buffer.bytes
    return Placement(addresses, end, ())


def buffers_of(nodes):
    for node in nodes:
        yield from node.reads()
        yield from node.writes()
        yield from yielded_by(node)
        for region in regions_of(node):
            yield from buffers_of(region)
