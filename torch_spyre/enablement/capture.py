"""Record every op that a model calls and whether it is native, a fallback or missing.

The model runs eagerly on the card at full size with uncommitted memory and in timing mode: nothing
is computed, but every op takes its usual path through dispatch and compilation. An op that raises
is recorded as missing, its results are replaced by uninitialized tensors of the right shapes, and
the model continues.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_spyre import _C, knobs
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.cards import counters
from torch_spyre.enablement.findings import OpCase, Verdict
from torch_spyre.enablement.graph_verdict import graph_verdict
from torch_spyre.enablement.signature import signature
from torch_spyre.errors import CompilerFailure, UnsupportedError
from torch_spyre.ops.complex_as_real import ComplexPair
from torch_spyre.ops.fallback_reasons import fallback_reason
from torch_spyre.ops.native import eager_overloads

# Queries of tensor metadata; tracing resolves them, so they are not recorded as ops.
_NOT_OPS = ("prim::device", "aten::is_pinned")


@contextmanager
def silent_fallbacks() -> Iterator[None]:
    """Suppress fallback warnings inside the context; fallbacks are still counted."""
    _C._set_fallback_policy("silent")
    try:
        yield
    finally:
        _C._set_fallback_policy(knobs.execution.fallback)


@contextmanager
def track_modules(stack: list[str], model: torch.nn.Module) -> Iterator[None]:
    """Keep in `stack` the class names of the modules being called while inside the context."""
    handles = []
    for module in model.modules():
        name = type(module).__name__
        handles.append(module.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        handles.append(
            module.register_forward_hook(lambda *_: stack.pop() and None, always_call=True)
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class Capture(TorchDispatchMode):
    """Record every op on the card together with the modules in `stack` that called it.

    `on_new_op` is called with the name of each op that has not been recorded before.
    """

    def __init__(
        self, stack: list[str], on_new_op: Callable[[str], None] = lambda op: None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.cases: dict[tuple[str, str], OpCase] = {}
        self.cases_of: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.calls_of: dict[str, int] = defaultdict(int)
        self.step = ""
        self._stack, self._on_new_op = stack, on_new_op
        self._eager = frozenset(eager_overloads())

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(kind, ComplexPair) for kind in types):
            return NotImplemented  # it dispatches to real ops, which are recorded one by one
        if func._schema.name in _NOT_OPS or not _involves_card(args, kwargs):
            return func(*args, **kwargs)
        key = str(func), signature(func, args, kwargs)
        case = self.cases.get(key)
        if case is None:
            self._on_new_op(key[0])
            case, result = self._run_new_case(key, func, args, kwargs)
            self.cases[key] = case
        elif case.eager == "missing":
            result = uninitialized_results(func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        case.calls[self.step] = case.calls.get(self.step, 0) + 1
        module_names = dict.fromkeys(self._stack)
        case.modules = list(dict.fromkeys([*case.modules, *list(module_names)[-1:]]))
        for name in module_names:
            self.cases_of[name].add(key)
        return result

    def _run_new_case(
        self, key: tuple[str, str], func: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> tuple[OpCase, Any]:
        """Run an op for the first time; return its case and its result."""
        compiled, graph_reason = graph_verdict(func, args, kwargs)
        before = counters()
        eager: Verdict = "native"
        reason = ""
        try:
            result = func(*args, **kwargs)
        except Exception as error:  # any: an op that raises is a finding
            eager, reason = "missing", first_line(error)
            compiled = "missing" if compiled == "fallback" else compiled
            result = uninitialized_results(func, args, kwargs)
        after = counters()
        if eager == "native" and after["fallbacks"] > before["fallbacks"]:
            eager, compiler_error = "fallback", self._compiler_error(func, args, kwargs)
            reason = _reason(func, compiler_error)
            if isinstance(compiler_error, CompilerFailure):
                compiled = "missing"  # a graph with this op would fail
        how = _execution_kind(before, after) if eager == "native" else "CPU"
        reason = reason or (graph_reason if compiled != "native" else "")
        return OpCase(*key, eager, compiled, how, reason), result

    def _compiler_error(
        self, func: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> UnsupportedError | None:
        """Return the error that compiling this call raises; the eager kernel only logs it."""
        from torch_spyre._inductor.eager_op import plan_eager_op

        if func not in self._eager:
            return None
        try:
            plan_eager_op(func, args, kwargs)
        except UnsupportedError as error:
            return error
        return None


def uninitialized_results(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    """Return uninitialized results on the card; tensors that the op would write stay unchanged.

    Shapes, strides and dtypes come from running the op on the meta device.
    """
    leaves = pytree.tree_leaves((args, kwargs))
    originals: dict[int, torch.Tensor] = {}

    def to_meta(tensor: torch.Tensor) -> torch.Tensor:
        shadow = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        originals[id(shadow)] = tensor
        return shadow

    shadows = {id(leaf): to_meta(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
    meta_args, meta_kwargs = pytree.tree_map_only(
        torch.Tensor, lambda tensor: shadows[id(tensor)], (args, kwargs)
    )
    if "device" in meta_kwargs:
        meta_kwargs["device"] = torch.device("meta")
    results = func(*meta_args, **meta_kwargs)

    def to_card(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in originals:
            return originals[id(tensor)]
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE_NAME
        )

    return pytree.tree_map_only(torch.Tensor, to_card, results)


def _involves_card(args: Any, kwargs: Any) -> bool:
    """Return whether a call reads tensors on the card or creates one there."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == DEVICE_NAME:
        return True
    return any(map(_is_on_card, pytree.tree_leaves((args, kwargs))))


def _is_on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


def _execution_kind(before: dict[str, int], after: dict[str, int]) -> str:
    """Return how the card executed an op, from the counters before and after it."""
    if after["launches"] > before["launches"]:
        return "kernel"
    copy_counters = ("h2d_bytes", "d2h_bytes", "d2d_bytes")
    return "copy" if any(after[name] > before[name] for name in copy_counters) else "view"


def _reason(func: torch._ops.OpOverload, error: UnsupportedError | None) -> str:
    """Return why an op fell back: the compiler's error, or the registry's reason without one."""
    if error is None:
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        return f"no kernel: {fallback_reason(name, schema.overload_name)}"
    if isinstance(error, CompilerFailure) and isinstance(error.__cause__, Exception):
        return f"the compiler fails: {first_line(error.__cause__)}"
    return first_line(error).removeprefix("Spyre backend does not support: ")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type where the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
