"""The dims of a tile."""

from dataclasses import dataclass

from sympy import Symbol


@dataclass(frozen=True)
class Axis:
    """A dim of a tile. A symbol along sticks may be two dims: which stick, and which lane."""

    symbol: Symbol
    part: str = "whole"  # or "stick", or "lane"
