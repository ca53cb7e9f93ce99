"""The sizes, strides and layouts of a graph's inputs while it is compiled."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch

from torch_spyre import _C, knobs
from torch_spyre._inductor import config
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.fx_passes import source_hash
from torch_spyre.cards import load_card
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedError

_inputs: ContextVar[Sequence[Tensor | None]] = ContextVar("inputs", default=())


def describe(value: object) -> Tensor | None:
    """Return the metadata of a tensor on the card, without a name; None for other values.

    Raise UnsupportedError for the bytes of a storage, which the card holds in another format.
    """
    if not isinstance(value, torch.Tensor) or value.device.type != DEVICE_NAME:
        return None
    if _C.is_byte_view(value):
        raise UnsupportedError("ops on the bytes of a storage")
    return Tensor(
        "",
        tuple(value.shape),
        tuple(value.stride()),
        value.dtype,
        _C.get_spyre_tensor_layout(value),
        int(value.storage_offset()),
    )


@contextmanager
def compiling_for(values: Sequence[object]) -> Iterator[None]:
    """Compile for these inputs; add their metadata to the keys of Inductor's caches."""
    described = [describe(value) for value in values]
    text = "; ".join(map(_cache_text, described))
    token = _inputs.set(described)
    try:
        settings: Any = config
        with settings.patch(input_layouts=text, environment=_environment()):
            yield
    finally:
        _inputs.reset(token)


def _cache_text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    return f"{tensor.size} {tensor.stride} {tensor.offset} {tensor.layout!r}"


def _environment() -> str:
    """Return the knobs, the source digest and the card, on which generated code depends."""
    division = knobs.DivisionKnobs.title
    settings = [f"{knob.name}={knob.value()}" for knob in knobs.knobs_in_section(division)]
    return " ".join((source_hash(), *settings, f"card={load_card().digest}"))


def known_inputs(graph: Any) -> dict[str, Tensor]:
    """Return the inputs of the graph that are on the card, by their names in the graph."""
    described = _inputs.get()
    tensors = {}
    for name, tensor in zip(graph.graph_input_names, described, strict=False):
        if tensor is not None:
            tensors[name] = replace(tensor, name=name)
    return tensors
