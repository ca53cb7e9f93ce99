"""Values of a JSON file, each knowing where it stands, so that a complaint can say so."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from torch_spyre.errors import BundleError

LARGEST = 1 << 62
_DECIMAL = re.compile(r"-?[0-9]{1,19}")


class Field:
    def __init__(self, value: Any, file: str, key: str = "") -> None:
        self.value = value
        self.file = file
        self.key = key

    def fail(self, problem: str) -> NoReturn:
        raise BundleError(self.file, self.key, problem)

    def _below(self, key: str | int) -> str:
        part = f"[{key}]" if isinstance(key, int) else key
        return self.key + part if isinstance(key, int) or not self.key else f"{self.key}.{part}"

    def __getitem__(self, key: str) -> "Field":
        found = self.get(key)
        if found is None:
            raise BundleError(self.file, self._below(key), "is missing")
        return found

    def get(self, key: str) -> "Field | None":
        if not isinstance(self.value, dict):
            self.fail(f"must be an object, not {self._shown()}")
        if key not in self.value:
            return None
        return Field(self.value[key], self.file, self._below(key))

    def entries(self) -> Iterator[tuple[str, "Field"]]:
        if not isinstance(self.value, dict):
            self.fail(f"must be an object, not {self._shown()}")
        for key, item in self.value.items():
            yield key, Field(item, self.file, self._below(key))

    def items(self, count: int | None = None) -> list["Field"]:
        if not isinstance(self.value, list):
            self.fail(f"must be a list, not {self._shown()}")
        if count is not None and len(self.value) != count:
            self.fail(f"must have {count} items, and has {len(self.value)}")
        return [Field(item, self.file, self._below(index)) for index, item in enumerate(self.value)]

    def only(self) -> tuple[str, "Field"]:
        """The one entry of an object that must have one."""
        entries = list(self.entries())
        if len(entries) != 1:
            self.fail(f"must have one entry, and has {len(entries)}")
        return entries[0]

    def text(self, *allowed: str) -> str:
        if not isinstance(self.value, str):
            self.fail(f"must be a text, not {self._shown()}")
        if allowed and self.value not in allowed:
            self.fail(f"must be one of {', '.join(allowed)}, not {self._shown()}")
        return self.value

    def texts(self) -> list[str]:
        return [item.text() for item in self.items()]

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"must be true or false, not {self._shown()}")
        return self.value

    def integer(self, minimum: int = -LARGEST, maximum: int = LARGEST) -> int:
        """A number, or a text of decimal digits: files have both."""
        value = self.value
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"must be an integer, not {self._shown()}")
        if not minimum <= value <= maximum:
            self.fail(f"must be from {minimum} to {maximum}, and is {value}")
        return value

    def expect(self, value: Any) -> None:
        """What follows from other keys."""
        if type(self.value) is not type(value) or self.value != value:
            self.fail(f"is {self._shown()} where the rest of the file says {_shortened(value)}")

    def _shown(self) -> str:
        return _shortened(self.value)


def _shortened(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def load(path: Path) -> Field:
    return Field(_parsed(path), path.name)


def _parsed(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except RecursionError as error:
        raise BundleError(path.name, "", "is nested too deeply") from error
    except ValueError as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(path.name, "", f"is not JSON: {error}") from error


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BundleError(path.name, "", f"is missing from {path.parent}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(path.name, "", f"cannot be read: {error}") from error
