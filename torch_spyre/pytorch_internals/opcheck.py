"""`torch.library.opcheck` checks ops on the card: their autograd registration too."""

from contextlib import ExitStack
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, is_spyre, wrap

_AUTOGRAD_KEYS = ("AutogradPrivateUse1", "Autograd", "CompositeImplicitAutograd")


def _apply(undo: ExitStack) -> None:
    from torch.testing._internal.optests import generate_tests

    wrap(undo, generate_tests, "autograd_registration_check", _checking_the_key_of_the_card)


# The check looks for an autograd kernel at the key of the device, and knows the keys of three
# devices. Without such a kernel, results that require grad were computed by differentiable ops.
def _checking_the_key_of_the_card(original: Function) -> Function:
    def autograd_registration_check(op: Any, args: Any, kwargs: Any) -> None:
        if not any(map(is_spyre, pytree.tree_leaves((args, kwargs)))):
            original(op, args, kwargs)
            return
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        if any(has_kernel(op.name(), key) for key in _AUTOGRAD_KEYS):
            return
        # On the host, the check goes on to run the op, which has the same registrations there.
        original(op, *pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, (args, kwargs)))

    return autograd_registration_check


PATCH = Patch(
    name="opcheck",
    targets=(
        PrivateName(
            "torch.testing._internal.optests.generate_tests.autograd_registration_check",
            ("op", "args", "kwargs"),
        ),
    ),
    changes="`torch.library.opcheck` looks for an autograd kernel at the key of the card.",
    reason="The check raises NotImplementedError for devices other than three; it has no hook.",
    breaks="`torch.library.opcheck` fails for ops with inputs on the card that require grad.",
    apply=_apply,
    after_import="torch.testing._internal.optests.generate_tests",
)
