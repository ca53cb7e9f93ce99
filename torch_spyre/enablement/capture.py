"""The ops of a model, each with what the card makes of it.

The model runs eagerly on the card at its full size, on memory that nobody has touched, with the
timing model only: nothing is computed, but every op takes the way it takes in earnest. An op that
the card cannot do at all is written down, its results are made up, and the model goes on.
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

# Questions about a tensor: they are answered while a graph is traced.
_NOT_OPS = ("prim::device", "aten::is_pinned")


@contextmanager
def silent_fallbacks() -> Iterator[None]:
    """They are counted, and that is enough here."""
    _C._set_fallback_policy("silent")
    try:
        yield
    finally:
        _C._set_fallback_policy(knobs.execution.fallback)


@contextmanager
def track_modules(stack: list[str], model: torch.nn.Module) -> Iterator[None]:
    """While inside, `stack` has the classes of the modules that are being called."""
    handles = []
    for part in model.modules():
        name = type(part).__name__
        handles.append(part.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        handles.append(
            part.register_forward_hook(lambda *_: stack.pop() and None, always_call=True)
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class Capture(TorchDispatchMode):
    """Writes down every op on the card; `stack` says in which modules."""

    def __init__(self, stack: list[str], told: Callable[[str], None] = lambda op: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.cases: dict[tuple[str, str], OpCase] = {}
        self.cases_of: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.calls_of: dict[str, int] = defaultdict(int)
        self.step = ""
        self._stack, self._told = stack, told
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
            return NotImplemented  # it calls real ops, which come here one by one, as in a graph
        if func._schema.name in _NOT_OPS or not _concerns_card(args, kwargs):
            return func(*args, **kwargs)
        key = str(func), signature(func, args, kwargs)
        case = self.cases.get(key)
        if case is None:
            self._told(key[0])
            case, result = self._first(key, func, args, kwargs)
            self.cases[key] = case
        else:
            made = uninitialized_results if case.eager == "missing" else _called
            result = made(func, args, kwargs)
        case.calls[self.step] = case.calls.get(self.step, 0) + 1
        inside = dict.fromkeys(self._stack)
        case.modules = list(dict.fromkeys([*case.modules, *list(inside)[-1:]]))
        for name in inside:
            self.cases_of[name].add(key)
        return result

    def _first(
        self, key: tuple[str, str], func: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> tuple[OpCase, Any]:
        compiled, graph_reason = graph_verdict(func, args, kwargs)
        before = counters()
        eager: Verdict = "native"
        reason = ""
        try:
            result = func(*args, **kwargs)
        except Exception as error:  # any: what an op says to these arguments is a finding
            eager, reason = "missing", first_line(error)
            compiled = "missing" if compiled == "fallback" else compiled
            result = uninitialized_results(func, args, kwargs)
        after = counters()
        if eager == "native" and after["fallbacks"] > before["fallbacks"]:
            eager, refusal = "fallback", self._refusal(func, args, kwargs)
            reason = _why(func, refusal)
            if isinstance(refusal, CompilerFailure):
                compiled = "missing"  # of a graph it would be the end
        how = _how(before, after) if eager == "native" else "CPU"
        reason = reason or (graph_reason if compiled != "native" else "")
        return OpCase(*key, eager, compiled, how, reason), result

    def _refusal(
        self, func: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> UnsupportedError | None:
        """What the compiler says to an op that it is asked for; the kernel keeps it to itself."""
        from torch_spyre._inductor.eager_op import plan_eager_op

        if func not in self._eager:
            return None
        try:
            plan_eager_op(func, args, kwargs)
        except UnsupportedError as error:
            return error
        return None


def uninitialized_results(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    """Results of the right shapes without values, on the card; what is written stays as it was."""
    tensors = pytree.tree_leaves((args, kwargs))
    there: dict[int, torch.Tensor] = {}

    def to_meta(tensor: torch.Tensor) -> torch.Tensor:
        shadow = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        there[id(shadow)] = tensor
        return shadow

    shadows = {id(each): to_meta(each) for each in tensors if isinstance(each, torch.Tensor)}
    meta_args, meta_kwargs = pytree.tree_map_only(
        torch.Tensor, lambda each: shadows[id(each)], (args, kwargs)
    )
    if "device" in meta_kwargs:
        meta_kwargs["device"] = torch.device("meta")
    results = func(*meta_args, **meta_kwargs)

    def to_card(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in there:
            return there[id(tensor)]
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE_NAME
        )

    return pytree.tree_map_only(torch.Tensor, to_card, results)


def _called(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _concerns_card(args: Any, kwargs: Any) -> bool:
    wanted = kwargs.get("device")
    if wanted is not None and torch.device(wanted).type == DEVICE_NAME:
        return True
    return any(map(_on_card, pytree.tree_leaves((args, kwargs))))


def _on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


def _how(before: dict[str, int], after: dict[str, int]) -> str:
    if after["launches"] > before["launches"]:
        return "kernel"
    copied = ("h2d_bytes", "d2h_bytes", "d2d_bytes")
    return "copy" if any(after[name] > before[name] for name in copied) else "view"


def _why(func: torch._ops.OpOverload, refusal: UnsupportedError | None) -> str:
    if refusal is None:
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        return f"no kernel: {fallback_reason(name, schema.overload_name)}"
    if isinstance(refusal, CompilerFailure) and isinstance(refusal.__cause__, Exception):
        return f"the compiler fails: {first_line(refusal.__cause__)}"
    return first_line(refusal).removeprefix("Spyre backend does not support: ")


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
