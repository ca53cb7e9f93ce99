"""Helpers for tests of the lowering: compile a text, with or without the optimising passes."""

import pytest

from torch_spyre import ktir
from torch_spyre.backend.lowering import compile_function, kernel
from torch_spyre.cards import load_card


def compiled(text, known=None, arrays=None, function=None, *, optimises=True):
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
        optimises=optimises,
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
