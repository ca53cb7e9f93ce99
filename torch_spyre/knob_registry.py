"""The registry of environment variables: what a knob is, and overrides for tests.

`torch_spyre/knobs.py` lists the knobs. `import torch` loads this module, so it must import the
standard library only, and little of that.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Literal, Self, TypeVar, overload

from torch_spyre.errors import KnobError, KnobWarning
from torch_spyre.knob_kinds import Kind

Value = TypeVar("Value")

Standing = Literal["read", "accepted", "pytorch"]
STANDINGS: dict[Standing, str] = {
    "read": "read by this package",
    "accepted": "checked but without effect here",
    "pytorch": "belongs to PyTorch, and this package reads it too or depends on it",
}

_registry: dict[str, "Knob[Any]"] = {}
_overrides: dict[str, str | None] = {}
_listeners: list[Callable[[], None]] = []


class Knob(Generic[Value]):
    """One environment variable; as an attribute of a `Section` it evaluates to its value."""

    section: str

    def __init__(
        self,
        name: str,
        kind: Kind[Value],
        default: Value | Callable[[], Value],
        help: str,
        *,
        standing: Standing = "read",
        default_text: str | None = None,
        empty_means_unset: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.standing: Standing = standing
        self.default_text = _as_text(default) if default_text is None else default_text
        self._default = default
        self._empty_means_unset = empty_means_unset

    def __set_name__(self, owner: type["Section"], attribute: str) -> None:
        self.section = owner.title
        _registry[self.name] = self

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        return self if instance is None else self.value()

    def __set__(self, instance: object, value: object) -> None:
        raise AttributeError(f"set {self.name} in the environment, or use knobs.override")

    def text(self) -> str | None:
        """Return the text in the environment, or None if the default applies."""
        text = _overrides[self.name] if self.name in _overrides else os.environ.get(self.name)
        if text is None or (self._empty_means_unset and not text.strip()):
            return None
        return text.strip()

    def value(self) -> Value:
        text = self.text()
        if text is None:
            return self._default() if callable(self._default) else self._default
        try:
            return self.kind.parse(text)
        except KnobError:  # the kind has its own message
            raise
        except ValueError:
            raise KnobError(self.name, text, self.kind.allowed) from None


def _as_text(value: object) -> str:
    if value is None:
        return "unset"
    return str(int(value)) if isinstance(value, bool) else str(value)


class Section:
    """A group of knobs; one table in the documentation."""

    title: str


def all_knobs() -> tuple[Knob[Any], ...]:
    """Return every knob, in the order of this file."""
    return tuple(_registry.values())


def knobs_in_section(title: str) -> tuple[Knob[Any], ...]:
    """Return the knobs of the section with this title."""
    return tuple(knob for knob in all_knobs() if knob.section == title)


def on_override(listener: Callable[[], None]) -> None:
    """Call `listener` whenever an `override` begins or ends: for code that caches values."""
    _listeners.append(listener)


def _notify_listeners() -> None:
    for listener in _listeners:
        listener()


@contextmanager
def override(**values: str | int | None) -> Iterator[None]:
    """Within the block, `NAME=value` overrides the environment, and None means unset.

    For tests. It holds for the whole process, but not for child processes nor for values that C++
    read when the card started; launches follow it.
    """
    unknown = values.keys() - _registry.keys()
    if unknown:
        raise KeyError(f"no such knob: {', '.join(sorted(unknown))}")
    before = dict(_overrides)
    _overrides.update({name: v if v is None else str(v) for name, v in values.items()})
    _notify_listeners()
    try:
        yield
    finally:
        _overrides.clear()
        _overrides.update(before)
        _notify_listeners()


def child_environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment for a child process, with variables set, or unset where None."""
    environment = {**os.environ, **{key: text for key, text in changes.items() if text is not None}}
    return {key: text for key, text in environment.items() if changes.get(key, text) is not None}


# Every variable that starts like this is ours, so that one without a knob is a mistake.
OUR_PREFIXES = ("SPYRE_", "TORCH_SPYRE_")


def warn_about_unknown_variables() -> None:
    """Issue a `KnobWarning` for each variable with our prefix that is no knob."""
    for name in sorted(os.environ):
        if name.startswith(OUR_PREFIXES) and name not in _registry:
            # Reported at no line of the user's code: the environment is not set there.
            warnings.warn(KnobWarning(name, _nearest_knob(name)), stacklevel=2)


def _nearest_knob(name: str) -> str | None:
    from difflib import get_close_matches  # here: most programs make no mistake

    matches = get_close_matches(name, _registry, n=1, cutoff=0.75)
    return matches[0] if matches else None
