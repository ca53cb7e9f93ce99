"""Loop bodies know the node of the graph that they come from."""

from contextlib import ExitStack
from typing import Any

from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    from torch._inductor.ir import Pointwise

    wrap(undo, Pointwise, "make_loader", _tracking)


def _tracking(original: Function) -> Function:
    from torch_spyre._inductor.provenance import loader_of

    def make_loader(self: Any) -> Any:
        return loader_of(self.origin_node, original(self))

    return make_loader


PATCH = Patch(
    name="loop_origins",
    targets=(
        PrivateName("torch._inductor.ir.Pointwise.make_loader"),
        PrivateName("torch._inductor.ir.Pointwise", members=("origin_node",)),
    ),
    changes="While Inductor evaluates a loop body, the node that it belongs to is known, also "
    "inside of another node's loop body.",
    reason="Inductor records the origins of a whole loop, and a loop consists of the ops of many "
    "lines.",
    breaks="Dumps, traces and messages attribute ops of fused loops to the wrong line, or to none.",
    apply=_apply,
    lifetime=Lifetime.COMPILATION,
)
