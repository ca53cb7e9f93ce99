"""Dynamo does not trace the functions of `torch.spyre` for streams and random generators."""

from contextlib import ExitStack

from torch_spyre.pytorch_internals.records import Patch, PrivateName

_MODULES = ("torch_spyre.device.random", "torch_spyre.device.streams")


def _apply(undo: ExitStack) -> None:
    from torch._dynamo import trace_rules

    skipped = list(trace_rules.SKIP_DIRS)
    for module in _MODULES:
        trace_rules.add(module)

    def restore() -> None:
        trace_rules.SKIP_DIRS[:] = skipped
        trace_rules._recompile_re()

    undo.callback(restore)


PATCH = Patch(
    name="skipped_modules",
    targets=(
        PrivateName("torch._dynamo.trace_rules.add", ("import_name",)),
        PrivateName("torch._dynamo.trace_rules.SKIP_DIRS"),
        PrivateName("torch._dynamo.trace_rules._recompile_re"),
    ),
    changes="Functions of `torch.spyre` for streams and random generators are graph breaks.",
    reason="Dynamo has a list of such functions for the devices that it knows, and traces ours "
    "instead; it cannot trace the C types of streams and generators.",
    breaks="`torch.spyre.stream` in a compiled function is an internal error of Dynamo.",
    apply=_apply,
    after_import="torch._dynamo",
)
