"""The policy of fallbacks: what happens to them, and which ops it does not apply to.

TORCH_SPYRE_FALLBACK sets the policy of the process, and `torch.spyre.fallback` that of a block of
code. C++ reads it at every fallback (`csrc/torch/fallback_policy.cpp`), and the compiler reads it
for each graph.
"""

import functools
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from torch_spyre import _C, knobs
from torch_spyre.errors import KnobError, UnknownNamespaceWarning, UnknownOpError
from torch_spyre.knob_kinds import FALLBACK, FallbackSetting

Op = str | torch._ops.OpOverload | torch._ops.OpOverloadPacket


def fallback(
    mode: str | None = None, *, allow: Op | Iterable[Op] = ()
) -> AbstractContextManager[None]:
    """Return a context manager, or a decorator, that sets what happens to ops that fall back.

    `mode` ("warn", "silent" or "error") applies to all ops but those in `allow`, which run on the
    CPU without a warning. It may also be a value of TORCH_SPYRE_FALLBACK, with a list. Names are
    "aten._linalg_det", which means all overloads, or "aten._linalg_det.default"; ops such as
    `torch.ops.aten._linalg_det` may be given instead. Without a mode, the mode outside of the
    block continues to apply, and `allow` adds to its list.

    It holds for the calling thread and for backward passes that start in it. Blocks may be nested.
    Raises KnobError for a mode or an op that does not exist.

        with torch.spyre.fallback("error", allow=["aten._linalg_det"]):
            model(x)
    """
    is_single = isinstance(allow, str | torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    ops: Iterable[Op] = [allow] if is_single else allow  # type: ignore[assignment, list-item]
    names = [str(op) for op in ops]
    if mode is not None:
        setting = _parsed(mode)
        names += setting.allow
        # A list alone adds to that of the outer policy, as the argument does.
        mode = None if mode.lstrip().startswith("allow:") else setting.mode
    return _policy_of_block(mode, _checked("torch.spyre.fallback", names))


def _parsed(mode: str) -> FallbackSetting:
    try:
        return FALLBACK.parse(str(mode))
    except ValueError:
        raise KnobError("torch.spyre.fallback", str(mode), FALLBACK.allowed) from None


@contextmanager
def _policy_of_block(mode: str | None, names: list[str]) -> Iterator[None]:
    outer = current()
    policy = (
        _C._FallbackPolicy(outer.mode, [*outer.allow, *names])
        if mode is None
        else _C._FallbackPolicy(mode, names)
    )
    previous = _C._thread_fallback_policy()
    _C._set_thread_fallback_policy(policy)
    try:
        yield
    finally:
        _C._set_thread_fallback_policy(previous)


def current() -> _C._FallbackPolicy:
    """Return the policy of this thread: that of the innermost block, or of the environment."""
    return _C._thread_fallback_policy() or of_environment()


def of_environment() -> _C._FallbackPolicy:
    """Return the policy that TORCH_SPYRE_FALLBACK sets."""
    return _policy_of(knobs.execution.fallback)


@functools.cache
def _policy_of(setting: FallbackSetting) -> _C._FallbackPolicy:
    return _C._FallbackPolicy(setting.mode, _checked("TORCH_SPYRE_FALLBACK", setting.allow))


def _checked(setting: str, names: Iterable[str]) -> list[str]:
    """Return names as C++ compares them; raise UnknownOpError for a name that is no op.

    An op of a namespace without ops, which a library may register later, is a warning.
    """
    normalized = [name.removeprefix("torch.ops.").replace("::", ".") for name in names]
    if not normalized:
        return []
    known = _known_names()
    namespaces = {name.partition(".")[0] for name in known}
    for name in normalized:
        namespace, dot, _ = name.partition(".")
        if name in known:
            continue
        nearest = _nearest(name, known)
        if dot and namespace not in namespaces and nearest is None:
            warnings.warn(UnknownNamespaceWarning(setting, name, namespace), stacklevel=3)
        else:
            raise UnknownOpError(setting, name, nearest)
    return normalized


def _known_names() -> set[str]:
    """Return the names of all registered ops, with and without their overloads."""
    names = set()
    for name, overload in _C._op_names():
        dotted = name.replace("::", ".")
        names |= {dotted, f"{dotted}.{overload or 'default'}"}
    return names


def _nearest(name: str, known: set[str]) -> str | None:
    from difflib import get_close_matches

    namespace, dot, _ = name.partition(".")
    if not dot and f"aten.{name}" in known:
        return f"aten.{name}"
    is_of_library = any(other.startswith(f"{namespace}.") for other in known)
    candidates = [other for other in known if other.startswith(f"{namespace}.")]
    matches = get_close_matches(name, candidates if is_of_library else known, n=1, cutoff=0.8)
    return matches[0] if matches else None
