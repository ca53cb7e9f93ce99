"""Record functions of PyTorch that fail or fall back before the dispatcher calls an op.

Some ops run whole on the CPU, with gradients, and some methods such as `Tensor.numpy` are no ops: a
`TorchDispatchMode` does not see them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from torch_spyre.device.cards import counters
from torch_spyre.enablement.capture import Capture, first_line
from torch_spyre.enablement.findings import OpCase, Verdict
from torch_spyre.enablement.signature import signature
from torch_spyre.enablement.source_lines import current_line
from torch_spyre.ops.fallback_reasons import fallback_reason


class FunctionCalls(TorchFunctionMode):
    """Adds to a capture the functions that fail or fall back without a recorded op."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        capture = self._capture
        counted, recorded = counters()["fallbacks"], capture.num_fallbacks
        try:
            result = func(*args, **kwargs)
        except Exception as error:  # any: a function that raises is a finding
            capture.record_failure(error, _case(func, args, kwargs, "missing", first_line(error)))
            raise
        if counters()["fallbacks"] - counted > capture.num_fallbacks - recorded:
            reason = f"no kernel: {fallback_reason(getattr(func, '__name__', ''))}"
            case = _case(func, args, kwargs, "fallback", reason)
            key = case.op, case.signature
            capture.record(key, capture.cases.get(key, case))
            capture.num_fallbacks = recorded + counters()["fallbacks"] - counted
        return result


def _case(func: Any, args: Any, kwargs: Any, verdict: Verdict, reason: str) -> OpCase:
    text = signature(args, kwargs)
    return OpCase(_name(func), text, verdict, verdict, "CPU", reason, current_line())


def _name(func: Any) -> str:
    """Return the name of the op that a function calls first or, if it calls none, its own."""
    name = getattr(func, "__name__", "")
    if name and hasattr(torch.ops.aten, name):
        return f"aten.{name}"
    return resolve_name(func) or str(func)
