"""JSON values with the file and key they come from, which validation errors report."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from torch_spyre.errors import BundleError

MAX_INTEGER = 1 << 62
_DECIMAL = re.compile(r"-?[0-9]{1,19}")


class Field:
    """A value of a JSON file. Accessors raise `BundleError` if the value is not as required."""

    def __init__(self, value: Any, file: str, key: str = "") -> None:
        self.value = value
        self.file = file
        self.key = key

    def fail(self, problem: str) -> NoReturn:
        """Raise a `BundleError` for this value."""
        raise BundleError(self.file, self.key, problem)

    def _child_key(self, key: str | int) -> str:
        part = f"[{key}]" if isinstance(key, int) else key
        return self.key + part if isinstance(key, int) or not self.key else f"{self.key}.{part}"

    def __getitem__(self, key: str) -> "Field":
        field = self.get(key)
        if field is None:
            raise BundleError(self.file, self._child_key(key), "is missing")
        return field

    def get(self, key: str) -> "Field | None":
        """Return the entry of an object, or None if it has no such key."""
        if not isinstance(self.value, dict):
            self.fail(f"must be an object, not {self._abbreviated()}")
        if key not in self.value:
            return None
        return Field(self.value[key], self.file, self._child_key(key))

    def entries(self) -> Iterator[tuple[str, "Field"]]:
        """Yield the keys and values of an object."""
        if not isinstance(self.value, dict):
            self.fail(f"must be an object, not {self._abbreviated()}")
        for key, item in self.value.items():
            yield key, Field(item, self.file, self._child_key(key))

    def elements(self, count: int | None = None) -> list["Field"]:
        """Return the elements of a list, which must have `count` of them if that is given."""
        if not isinstance(self.value, list):
            self.fail(f"must be a list, not {self._abbreviated()}")
        if count is not None and len(self.value) != count:
            self.fail(f"must have {count} elements, but has {len(self.value)}")
        return [
            Field(item, self.file, self._child_key(index)) for index, item in enumerate(self.value)
        ]

    def single_entry(self) -> tuple[str, "Field"]:
        """Return the key and value of an object that must have exactly one entry."""
        entries = list(self.entries())
        if len(entries) != 1:
            self.fail(f"must have one entry, but has {len(entries)}")
        return entries[0]

    def string(self, *allowed: str) -> str:
        """Return a string, which must be one of `allowed` if those are given."""
        if not isinstance(self.value, str):
            self.fail(f"must be a string, not {self._abbreviated()}")
        if allowed and self.value not in allowed:
            self.fail(f"must be one of {', '.join(allowed)}, not {self._abbreviated()}")
        return self.value

    def strings(self) -> list[str]:
        """Return the elements of a list of strings."""
        return [element.string() for element in self.elements()]

    def boolean(self) -> bool:
        """Return a bool."""
        if not isinstance(self.value, bool):
            self.fail(f"must be true or false, not {self._abbreviated()}")
        return self.value

    def integer(self, minimum: int = -MAX_INTEGER, maximum: int = MAX_INTEGER) -> int:
        """Return an integer in the range; a string of decimal digits is accepted too."""
        value = self.value
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"must be an integer, not {self._abbreviated()}")
        if not minimum <= value <= maximum:
            self.fail(f"must be from {minimum} to {maximum}, not {value}")
        return value

    def expect(self, value: Any) -> None:
        """Check that the value is equal to the one that follows from other keys."""
        if type(self.value) is not type(value) or self.value != value:
            self.fail(f"is {self._abbreviated()}, but other keys require {_abbreviate(value)}")

    def _abbreviated(self) -> str:
        return _abbreviate(self.value)


def _abbreviate(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def load_json(path: Path) -> Field:
    """Return the content of a JSON file; raise `BundleError` if it cannot be read or parsed."""
    return Field(_parse_json(path), path.name)


def _parse_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except RecursionError as error:
        raise BundleError(path.name, "", "is nested too deeply") from error
    except ValueError as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(path.name, "", f"is not JSON: {error}") from error


def read_text(path: Path) -> str:
    """Return the text of a file; raise `BundleError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BundleError(path.name, "", f"is missing from {path.parent}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(path.name, "", f"cannot be read: {error}") from error
