"""Every change to PyTorch's compiler itself, with its reason and its undoing.

Most last as long as a graph for the card is compiled: context managers that put back what they
found. The last one stays: it is how graphs for the card get here. Options are in `context.py`.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeVar

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import HALF_DTYPES
from torch_spyre.errors import UnsupportedError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_AHEAD_OF_TIME = (
    "AOTInductor: programs for the card are made when a graph is called with its tensors. Compile "
    "what was exported instead, with torch.compile(exported.module())"
)


@contextmanager
def for_the_card(lowerings: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """All that last for a compilation; nested or failed, everything is as before after it."""
    with ExitStack() as undone:
        undone.enter_context(_halves_computed_as_halves())
        undone.enter_context(_lowered_by(lowerings))
        undone.enter_context(_loop_ops_of_ours())
        undone.enter_context(_constants_read_wide())
        yield


def _halves_computed_as_halves() -> Any:
    """Decompositions compute halves as float32; the card's units round each op once."""
    from torch._prims_common import _computation_dtype_map

    halves = {dtype: dtype for dtype in HALF_DTYPES}
    return _updated(_computation_dtype_map, halves)


@contextmanager
def _lowered_by(table: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Our lowerings go before Inductor's.

    Inductor asks its own table first whether an op can be lowered at all: ops that only we lower
    have to be there too.
    """
    from torch._inductor.lowering import lowerings, user_lowerings

    missing = {key: value for key, value in table.items() if key not in lowerings}
    with _updated(user_lowerings, table), _updated(lowerings, missing):
        yield


def _loop_ops_of_ours() -> Any:
    """Inductor warns of an op in a loop body whose name its handlers do not have."""
    from torch._inductor.ops_handler import DefaultHandler

    from torch_spyre._inductor.op_table import CUSTOM_LOOP_OPS

    handle = {name: DefaultHandler._call_default(name) for name in CUSTOM_LOOP_OPS}
    return _attributes(DefaultHandler, handle)


def _constants_read_wide() -> Any:
    """Folded constants are computed on the card, whose halves exceed float16's.

    The lowest number of a mask is one of these: read as float16 it would be minus infinity.
    """
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder

    original = UniformValueConstantFolder.add_node_replacement

    def read(self: Any, node: torch.fx.Node, tensor: torch.Tensor) -> None:
        original(self, node, tensor)
        if tensor.device.type == DEVICE_NAME and tensor.dtype is torch.float16:
            self.node_replacements[node] = tensor.flatten()[0].to(torch.float32).item()

    return _attributes(UniformValueConstantFolder, {"add_node_replacement": read})


@contextmanager
def _updated(table: MutableMapping[_Key, _Value], entries: Mapping[_Key, _Value]) -> Iterator[None]:
    before = {key: table[key] for key in entries if key in table}
    table.update(entries)
    try:
        yield
    finally:
        for key in entries:
            if key in before:
                table[key] = before[key]
            else:
                table.pop(key, None)


@contextmanager
def _attributes(owner: type, values: Mapping[str, Any]) -> Iterator[None]:
    before = {name: owner.__dict__[name] for name in values if name in owner.__dict__}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)


def route_graphs_of_the_card(inductor: ModuleType) -> None:
    """Programs that name the backend `inductor`, as libraries do, mean the compiler of the device.

    Undone by giving `compile_fx` its `__wrapped__` back.
    """
    original = inductor.compile_fx

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Sequence[Any], **options: Any) -> Any:
        from torch_spyre._inductor.backend import compile_graph, touches_card

        plain = isinstance(model_, torch.fx.GraphModule) and set(options) <= {
            "config_patches",
            "compile_region_name",
        }
        ahead_of_time = inductor.V.aot_compilation
        if not (plain or ahead_of_time) or not touches_card(model_, example_inputs_):
            return original(model_, example_inputs_, **options)
        if ahead_of_time:
            raise UnsupportedError(_AHEAD_OF_TIME)
        return compile_graph(model_, example_inputs_, options=options.get("config_patches"))

    inductor.compile_fx = compile_fx  # type: ignore[attr-defined]  # any module, to mypy
