"""`torch.compile` without a backend compiles for the card, and `backend="spyre"` exists."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName


def _apply(undo: ExitStack) -> None:
    import torch._dynamo as dynamo

    dynamo.register_backend(_compile, name=DEVICE_NAME)
    torch.compiler.set_default_backend(DEVICE_NAME)
    undo.callback(torch.compiler.set_default_backend, None)


def _compile(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    from torch_spyre._inductor.backend import compile_graph

    return compile_graph(module, example_inputs, **options)


PATCH = Patch(
    name="default_backend",
    targets=(
        PrivateName("torch._dynamo.register_backend", ("compiler_fn", "name")),
        PrivateName("torch.compiler.set_default_backend", ("backend",)),
    ),
    changes="Our compiler is the default backend of `torch.compile`. It passes graphs without "
    "tensors on a card on to Inductor.",
    reason="The functions are public, but calling them imports Dynamo, which takes seconds: we "
    "wait with an import hook until a program imports it.",
    breaks="`torch.compile` uses Inductor's CPU code for the card, and fails.",
    apply=_apply,
    after_import="torch._dynamo",
)
