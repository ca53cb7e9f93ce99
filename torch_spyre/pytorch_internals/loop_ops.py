"""Ops of our own in Inductor's loop bodies."""

from contextlib import ExitStack

from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import set_attribute


def _apply(undo: ExitStack) -> None:
    from torch._inductor.ops_handler import DefaultHandler

    from torch_spyre._inductor.op_table import CUSTOM_LOOP_OPS

    for name in CUSTOM_LOOP_OPS:
        set_attribute(undo, DefaultHandler, name, DefaultHandler._call_default(name))


PATCH = Patch(
    name="loop_ops",
    targets=(
        PrivateName("torch._inductor.ops_handler.DefaultHandler", members=("_default",)),
        PrivateName("torch._inductor.ops_handler.DefaultHandler._call_default", ("target",)),
    ),
    changes="Loop ops that only we have (such as `ops.silu` and `ops.gelu`) exist in loop bodies.",
    reason="Handlers define a fixed set of ops and warn about any other name.",
    breaks="Every compilation that uses these ops logs warnings, or fails.",
    apply=_apply,
    lifetime=Lifetime.COMPILATION,
)
