"""Makes `torch.compile` compile for the card, without loading the compiler before it is used."""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.import_hook import after_import
from torch_spyre.errors import UnsupportedError

_AHEAD_OF_TIME = (
    "AOTInductor: programs for the card are made when a graph is called with its tensors. Compile "
    "what was exported instead, with torch.compile(exported.module())"
)


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
    """Programs that name the backend `inductor`, as libraries do, mean the compiler of the device.

    Undone by giving `compile_fx` its `__wrapped__` back.
    """
    original = inductor.compile_fx

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Sequence[Any], **options: Any) -> Any:
        from torch_spyre._inductor.backend import touches_card

        plain = isinstance(model_, torch.fx.GraphModule) and set(options) <= {
            "config_patches",
            "compile_region_name",
        }
        ahead_of_time = inductor.V.aot_compilation
        if not (plain or ahead_of_time) or not touches_card(model_, example_inputs_):
            return original(model_, example_inputs_, **options)
        if ahead_of_time:
            raise UnsupportedError(_AHEAD_OF_TIME)
        return _compile(model_, example_inputs_, options=options.get("config_patches"))

    inductor.compile_fx = compile_fx  # type: ignore[attr-defined]  # any module, to mypy
