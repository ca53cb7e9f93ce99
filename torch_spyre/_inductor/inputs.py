"""What is known of a graph's inputs while it is compiled: sizes, strides, layouts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from torch_spyre import _C, knobs
from torch_spyre._inductor import config
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.fx_passes import source_hash
from torch_spyre.cards import load_card
from torch_spyre.constants import DEVICE_NAME

_inputs: ContextVar[Sequence[Tensor | None]] = ContextVar("inputs", default=())


def describe(value: object) -> Tensor | None:
    """None for what is not a tensor on the card."""
    if not isinstance(value, torch.Tensor) or value.device.type != DEVICE_NAME:
        return None
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
    """Compiles for these inputs, and says so in the keys of Inductor's caches."""
    described = [describe(value) for value in values]
    text = "; ".join(
        "-" if each is None else f"{each.size} {each.stride} {each.offset} {each.layout!r}"
        for each in described
    )
    token = _inputs.set(described)
    try:
        settings: Any = config
        with settings.patch(input_layouts=text, environment=_environment()):
            yield
    finally:
        _inputs.reset(token)


def _environment() -> str:
    """What else changes generated code."""
    division = knobs.DivisionKnobs.title
    settings = [f"{knob.name}={knob.value()}" for knob in knobs.of_section(division)]
    dump = f"dump={knobs.logging.dump is not None}"
    return " ".join((source_hash(), *settings, f"card={load_card().digest}", dump))


def known_inputs(graph: Any) -> dict[str, Tensor]:
    """The graph's inputs on the card, by the names they have there."""
    from dataclasses import replace

    described = _inputs.get()
    found = {}
    for name, tensor in zip(graph.graph_input_names, described, strict=False):
        if tensor is not None:
            found[name] = replace(tensor, name=name)
    return found
