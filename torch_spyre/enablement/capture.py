"""Record every op that a model calls and whether it is native, a fallback or missing.

The model runs eagerly on the card at full size with uncommitted memory and in timing mode: nothing
is computed, but every op takes its usual path through dispatch and compilation. An op that raises
is recorded as missing, its results are replaced by uninitialized tensors of the right shapes, and
the model continues. Where such tensors cannot exist on the card, the model stops.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.cards import counters
from torch_spyre.enablement.findings import OpCase, Stop, Verdict
from torch_spyre.enablement.graph_verdict import graph_verdict
from torch_spyre.enablement.signature import signature
from torch_spyre.enablement.source_lines import current_line, line_of, modules_of, source_line
from torch_spyre.errors import CompilerFailure, UnsupportedError
from torch_spyre.ops.complex_as_real import ComplexPair
from torch_spyre.ops.fallback_reasons import fallback_reason
from torch_spyre.ops.native import eager_overloads

# Queries of tensor metadata; tracing resolves them, so they are not recorded as ops.
_NOT_OPS = ("prim::device", "aten::is_pinned")
# Names what stops a model outside of any op, such as `Tensor.numpy()`.
NO_OP = "(no op)"


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


@dataclass(frozen=True)
class Failure:
    """An error, and what to record if the model stops with it; nothing if that is recorded."""

    message: str
    case: OpCase | None = None


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
        # Fallbacks that recorded cases explain.
        self.num_fallbacks = 0
        # The last error of an op or of a function of PyTorch; the latter is a case if the model
        # does not catch it.
        self._last_failure: Failure | None = None
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
        key = str(func), signature(args, kwargs)
        case = self.cases.get(key)
        if case is None:
            self._on_new_op(key[0])
            case, call = self._run_new_case(key, func, args, kwargs)
        elif case.eager == "missing":
            call = lambda: uninitialized_results(func, args, kwargs)  # noqa: E731
        else:
            call = lambda: func(*args, **kwargs)  # noqa: E731
        self.record(key, case)
        return self._counted(call)

    def _counted(self, call: Callable[[], Any]) -> Any:
        before = counters()["fallbacks"]
        try:
            return call()
        except Exception as error:  # any: a model that stops is a finding
            self._last_failure = Failure(str(error))
            raise
        finally:
            self.num_fallbacks += counters()["fallbacks"] - before

    def record_stop(self, error: Exception) -> Stop:
        """Return where the model stopped; record the cause as missing if it is no recorded op."""
        location, modules = line_of(error), modules_of(error)
        message = f"{type(error).__name__}: {first_line(error)}"
        failure = self._last_failure
        if failure is None or failure.message != str(error):  # not an error of PyTorch
            case = OpCase(
                NO_OP, source_line(location), "missing", "missing", "CPU", message, location
            )
            failure = Failure(str(error), case)
        if failure.case is not None:
            self._stack[:] = modules
            self.record((failure.case.op, failure.case.signature), failure.case)
        return Stop(self.step, (modules or [""])[-1], location, message)

    def record_failure(self, error: Exception, case: OpCase) -> None:
        """Remember an error of a function, unless it is that of an op."""
        if self._last_failure is None or self._last_failure.message != str(error):
            self._last_failure = Failure(str(error), case)

    def record_compiler_error(self, message: str) -> None:
        """Record that the compiled model raises an error, unless a missing op explains it."""
        if any(case.compiled == "missing" for case in self.cases.values()):
            return
        key = "(torch.compile)", ""
        self.cases[key] = OpCase(*key, "native", "missing", "kernel", message)

    def record_compiled(self, num_fallbacks: int) -> None:
        """Record that the compiled model ran, so that nothing that stops it eagerly does so."""
        for case in self.cases.values():
            if case.compiled == "missing" and case.op == NO_OP:
                case.compiled = "fallback" if num_fallbacks else "native"

    def record(self, key: tuple[str, str], case: OpCase) -> None:
        """Count a call of an op by the current modules."""
        self.cases[key] = case
        case.calls[self.step] = case.calls.get(self.step, 0) + 1
        module_names = dict.fromkeys(self._stack)
        case.modules = list(dict.fromkeys([*case.modules, *list(module_names)[-1:]]))
        for name in module_names:
            self.cases_of[name].add(key)

    def _run_new_case(
        self, key: tuple[str, str], func: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> tuple[OpCase, Callable[[], Any]]:
        """Run an op for the first time; return its case and a function that returns its result.

        That function raises the op's error if its result cannot be replaced.
        """
        compiled, graph_reason = graph_verdict(func, args, kwargs)
        before = counters()
        eager: Verdict = "native"
        reason = ""
        try:
            result = func(*args, **kwargs)
            call = lambda: result  # noqa: E731
        except Exception as error:  # any: an op that raises is a finding
            eager, reason = "missing", first_line(error)
            compiled = "missing" if compiled == "fallback" else compiled
            call = partial(_placeholders, error, func, args, kwargs)
        after = counters()
        if eager == "native" and after["fallbacks"] > before["fallbacks"]:
            eager, compiler_error = "fallback", self._compiler_error(func, args, kwargs)
            reason = _reason(func, compiler_error)
            if isinstance(compiler_error, CompilerFailure):
                compiled = "missing"  # a graph with this op would fail
        self.num_fallbacks += after["fallbacks"] - before["fallbacks"]
        how = _execution_kind(before, after) if eager == "native" else "CPU"
        reason = reason or (graph_reason if compiled != "native" else "")
        is_native = eager == compiled == "native"
        location = "" if is_native else current_line()
        return OpCase(*key, eager, compiled, how, reason, location), call

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


def _placeholders(error: Exception, func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    """Return uninitialized results of an op that raised `error`; raise it if there can be none."""
    try:
        return uninitialized_results(func, args, kwargs)
    except Exception:  # any: the error of the op itself is what the model would raise
        raise error from None


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
