"""Makes `torch.compile` compile for the card, without loading the compiler before it is used."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.import_hook import after_import


def register() -> None:
    after_import("torch._dynamo", _register_backend)
    after_import("torch._inductor.compile_fx", _route_graphs_of_the_card)


def _register_backend(dynamo: ModuleType) -> None:
    """As the backend `spyre`, and as what is used when none is named.

    Graphs that have nothing to do with the card go to Inductor as they are.
    """
    dynamo.register_backend(_compile, name=DEVICE_NAME)
    torch.compiler.set_default_backend(DEVICE_NAME)


def _compile(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    from torch_spyre._inductor.backend import compile_graph

    return compile_graph(module, example_inputs, **options)


def _route_graphs_of_the_card(inductor: ModuleType) -> None:
    from torch_spyre._inductor import patches

    patches.route_graphs_of_the_card(inductor)
