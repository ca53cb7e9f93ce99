"""Graphs for the card that are sent to the backend `inductor` are compiled by ours."""

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.errors import UnsupportedError
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, set_attribute

_AHEAD_OF_TIME = (
    "AOTInductor: programs for the card are generated when a graph is called with its tensors. "
    "Compile the exported program instead, with torch.compile(exported.module())"
)
_FORWARDED_OPTIONS = {"config_patches", "compile_region_name"}


def _apply(undo: ExitStack) -> None:
    from torch._inductor import compile_fx as module

    set_attribute(undo, module, "compile_fx", _routing_graphs_of_cards(module.compile_fx))


def _routing_graphs_of_cards(original: Function) -> Function:
    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Sequence[Any], **options: Any) -> Any:
        from torch._inductor.virtualized import V

        from torch_spyre._inductor.backend import compile_graph, touches_card

        is_plain = isinstance(model_, torch.fx.GraphModule) and set(options) <= _FORWARDED_OPTIONS
        is_ahead_of_time = V.aot_compilation
        if not (is_plain or is_ahead_of_time) or not touches_card(model_, example_inputs_):
            return original(model_, example_inputs_, **options)
        if is_ahead_of_time:
            raise UnsupportedError(_AHEAD_OF_TIME)
        return compile_graph(model_, example_inputs_, options=options.get("config_patches"))

    return compile_fx


PATCH = Patch(
    name="compile_fx",
    targets=(
        PrivateName(
            "torch._inductor.compile_fx.compile_fx",
            ("model_", "example_inputs_", "config_patches", "compile_region_name"),
        ),
        PrivateName("torch._inductor.virtualized.V", members=("aot_compilation",)),
    ),
    changes="`torch.compile(backend='inductor')` compiles graphs for the card with our compiler.",
    reason="Libraries name the backend 'inductor' explicitly, and Inductor's own entry point "
    "cannot be extended per device.",
    breaks="Such graphs fail inside Inductor, or run op by op.",
    apply=_apply,
    after_import="torch._inductor.compile_fx",
)
