"""Kinds of environment variables, each with its parser.

`import torch` loads this module, so it must import the standard library only, and little of that.
"""

import os.path
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from torch_spyre.errors import InvalidCoresError

ParsedValue = TypeVar("ParsedValue", covariant=True)


class Kind(Generic[ParsedValue]):
    """Parses the text of a variable. `parse` raises ValueError for invalid text.

    A `KnobError` that it raises is passed to the user unchanged.
    """

    def __init__(self, parse: Callable[[str], ParsedValue], allowed: str) -> None:
        self.parse = parse
        self.allowed = allowed


def choice(*names: str, **aliases: str) -> Kind[str]:
    """Accept one of `names` in any case; `aliases` maps further spellings to one of them."""
    canonical = {name.lower(): name for name in names}
    canonical |= {alias.lower(): name for alias, name in aliases.items()}

    def parse(text: str) -> str:
        if text.lower() not in canonical:
            raise ValueError(text)
        return canonical[text.lower()]

    spellings = [*names, *(f"{alias} (same as {name})" for alias, name in aliases.items())]
    return Kind(parse, ", ".join(spellings))


def integer(minimum: int | None = None, maximum: int | None = None) -> Kind[int]:
    """Accept an integer within the bounds."""

    def parse(text: str) -> int:
        number = int(text)
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise ValueError(text)
        return number

    if minimum is None:
        return Kind(parse, "an integer")
    bound = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    return Kind(parse, f"an integer, {bound}")


class FallbackSetting(NamedTuple):
    """The value of TORCH_SPYRE_FALLBACK: a mode, and the ops that it does not apply to."""

    mode: str
    # As the user wrote them; `ops/fallback_policy.py` checks them.
    allow: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.mode},allow:{','.join(self.allow)}" if self.allow else self.mode


FALLBACK_MODES = ("warn", "silent", "error")


def _parse_fallback(text: str) -> FallbackSetting:
    """Parse `mode`, `mode,allow:op,op` or `allow:op,op`; the default mode is to warn."""
    items = [item.strip() for item in text.split(",")]
    mode = "warn" if items[0].startswith("allow:") else items.pop(0).lower()
    names = [item.removeprefix("allow:").strip() for item in items]
    is_list = not items or items[0].startswith("allow:")
    if mode not in FALLBACK_MODES or not is_list or not all(names):
        raise ValueError(text)
    return FallbackSetting(mode, tuple(names))


def _parse_boolean(text: str) -> bool:
    values = {"1": True, "true": True, "yes": True, "on": True}
    values |= {"0": False, "false": False, "no": False, "off": False}
    if text.lower() not in values:
        raise ValueError(text)
    return values[text.lower()]


def _parse_indices(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(item) for item in text.split(",")))


def _parse_cores(text: str) -> int:
    # The upper limit is the card's: see cards.usable_cores.
    if not text.isdecimal() or int(text) < 1:
        raise InvalidCoresError(text)
    return int(text)


def _parse_injection(text: str) -> str:
    action, _, instruction = text.partition(":")
    if action != "flip" or not instruction:
        raise ValueError(text)
    return text


BOOLEAN = Kind(_parse_boolean, "1/true/yes/on or 0/false/no/off")
ON_UNLESS_OFF = Kind(
    lambda text: text.lower() not in ("0", "false", "off"), "0/false/off; anything else is on"
)
FALLBACK = Kind(
    _parse_fallback, "warn, silent, error; then optionally ,allow: and names of ops, by commas"
)
CORES = Kind(_parse_cores, "an integer, from 1 to the number of cores of the card")
INJECTION = Kind(_parse_injection, "flip:<instruction>")
INDICES = Kind(_parse_indices, "integers separated by commas")
TEXT = Kind(str, "any text")
FOLDER_OR_OFF: Kind[str | None] = Kind(
    lambda text: None if text.lower() in ("", "0", "off") else os.path.expanduser(text),
    "a folder; empty, 0 or off for none",
)
