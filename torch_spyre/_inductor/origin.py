"""The place in the user's program that an operation comes from."""

from dataclasses import dataclass, fields, replace
from pathlib import PurePath


@dataclass(frozen=True)
class Origin:
    """An op of the user's program, its source line and its module; empty where unknown.

    It is a part of dumps, logs, traces and messages, and never of a cache key: one kernel serves
    all lines that need it.
    """

    # The name of the node in the graph that was compiled.
    node: str = ""
    # The op that the program called, before decompositions: aten._softmax.default.
    op: str = ""
    file: str = ""
    line: int = 0
    # The text of the source line.
    code: str = ""
    # The path of the module, as in `named_modules()`.
    module: str = ""

    @property
    def location(self) -> str:
        """`file:line`, or nothing if the line is unknown."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def short_location(self) -> str:
        """The same without the folders of the file."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else ""

    def is_same_call(self, other: "Origin | None") -> bool:
        """Return whether both come from one op of the program, maybe from parts of it."""
        return other is not None and replace(self, node="") == replace(other, node="")

    def __str__(self) -> str:
        """Return `aten.mul.Tensor at model.py:3 (y = x * 3) in layers.0`, without unknown parts."""
        parts = [self.op or self.node]
        if self.file:
            parts.append(f"at {self.location}")
        if self.code:
            parts.append(f"({self.code})")
        if self.module:
            parts.append(f"in {self.module}")
        return " ".join(parts)

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        known = ", ".join(f"{name}={value!r}" for name, value in values.items() if value)
        return f"Origin({known})"
