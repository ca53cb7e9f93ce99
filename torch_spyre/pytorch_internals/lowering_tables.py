"""Our lowerings replace Inductor's."""

from contextlib import ExitStack

from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import update_table


def _apply(undo: ExitStack) -> None:
    from torch._inductor.lowering import lowerings, user_lowerings

    from torch_spyre._inductor.lowerings import TABLE

    update_table(undo, user_lowerings, TABLE)
    # Inductor looks in its own table first to decide whether an op can be lowered at all.
    update_table(undo, lowerings, {key: TABLE[key] for key in TABLE if key not in lowerings})


PATCH = Patch(
    name="lowering_tables",
    targets=(
        PrivateName("torch._inductor.lowering.lowerings"),
        PrivateName("torch._inductor.lowering.user_lowerings"),
    ),
    changes="Ops of a graph for the card are lowered by our functions.",
    reason="Inductor has one table of lowerings for all devices; entries are not per device.",
    breaks="Ops that only we can lower fail to compile; others get loops the card cannot run.",
    apply=_apply,
    lifetime=Lifetime.COMPILATION,
)
