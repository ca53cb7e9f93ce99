"""The Dynamo backend: `torch.compile(model)` and `torch.compile(model, backend="spyre")`."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import get_custom_graph_passes

from torch_spyre._inductor import decompositions
from torch_spyre._inductor.context import OPTIONS, compiling
from torch_spyre._inductor.draws import SaveDraws
from torch_spyre._inductor.registration import register
from torch_spyre._inductor.specialization import specializing
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.logging_config import get_logger

logger = get_logger("torch_spyre.inductor")


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo captured; Inductor compiles graphs that do not use the card."""
    patches = dict(options or {})
    if mode is not None:
        patches |= torch._inductor.list_mode_options(mode)
    if not touches_card(module, example_inputs):
        compiled = compile_fx(module, example_inputs, config_patches=patches or None)
        return _function(compiled)
    register()
    _log_graph(module)
    with compiling(), torch._functorch.config.patch(enable_autograd_cache=False):
        compiled = compile_fx(
            module,
            example_inputs,
            inner_compile=specializing,  # type: ignore[arg-type]  # a function, no OutputCode
            decompositions=decompositions.table(),
            config_patches={**patches, **OPTIONS, **_joint_passes(patches)},
        )
    return _function(compiled)


def _joint_passes(patches: dict[str, Any]) -> dict[str, Any]:
    """Return the option for passes over joint graphs: those of the user, and ours."""
    name = "joint_custom_pre_pass"
    given = patches.get(name, getattr(torch._inductor.config, name))
    return {name: [*get_custom_graph_passes(given), SaveDraws()]}


def _log_graph(module: torch.fx.GraphModule) -> None:
    """Log a graph that Dynamo captured, and why it ends before the function does."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break and logger.isEnabledFor(logging.INFO):
        frames = reason.user_stack
        location = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        logger.info("graph break%s: %s", location, reason.reason.partition("\n")[0])
    logger.debug("captured a graph of %d nodes", len(module.graph.nodes))


def _function(compiled: object) -> Callable[..., Any]:
    # In other modes compile_fx returns text or weights.
    assert callable(compiled)
    return compiled


def touches_card(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Return whether an input or a node of the graph is on the card."""
    if any(_is_on_card(value) for value in example_inputs):
        return True
    for node in module.graph.nodes:
        values = [node.meta.get("val"), node.meta.get("example_value")]
        values += [*node.args, *node.kwargs.values()]
        if any(_is_on_card(value) for value in torch.utils._pytree.tree_leaves(values)):
            return True
    return False


def _is_on_card(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type == DEVICE_NAME
    if isinstance(value, torch.device):
        return value.type == DEVICE_NAME
    return isinstance(value, str) and value.partition(":")[0] == DEVICE_NAME
