"""Compares the memory of a kernel after a launch with the bounds that the interpreter computed."""

import math
from dataclasses import dataclass

import torch

from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.value_formats import ValueFormat, codes_of, decode


@dataclass(frozen=True)
class Divergence:
    """Elements of one array that are outside of their bounds; the worst of them in detail."""

    count: int
    total: int
    # The element's position in device memory, its value, and the bounds.
    position: int
    actual: float
    low: float
    high: float
    # The element is none that an op writes.
    is_outside: bool = False

    @property
    def error(self) -> float:
        """Return how far the value is from the bounds; infinite for NaN."""
        if math.isnan(self.actual) or math.isnan(self.low):
            return math.inf
        return max(self.low - self.actual, self.actual - self.high)


@dataclass(frozen=True)
class Check:
    """The result of checking one array."""

    divergence: Divergence | None
    # Elements that ops write, and those among them that may have any value.
    num_elements: int
    num_unbounded: int


def check(memory: Memory, after: torch.Tensor) -> Check:
    """Check the bytes of an array after a launch."""
    if memory.bounds is None or memory.format is None:
        return Check(_changed_bytes(memory, after), 0, 0)
    after = after[: memory.num_bytes]
    codes = codes_of(after, memory.format)
    written = memory.written.nonzero().squeeze(-1)
    bounds = memory.bounds.map(lambda values: values[written])
    actual = decode(codes[written], memory.format)
    is_wrong = ~bounds.contains(actual)
    num_unbounded = _num_unbounded(bounds, memory.format)
    if bool(is_wrong.any()):
        distance = torch.maximum(bounds.low - actual, actual - bounds.high).double()
        distance = torch.where(is_wrong, distance.nan_to_num(nan=torch.inf), -1.0)
        worst = int(distance.argmax())
        low, high = (side[worst].item() for side in (bounds.low, bounds.high))
        divergence = Divergence(
            int(is_wrong.sum()),
            len(written),
            int(written[worst]),
            actual[worst].item(),
            low,
            high,
        )
        return Check(divergence, len(written), num_unbounded)
    return Check(_changed_elements(memory, codes), len(written), num_unbounded)


def _num_unbounded(bounds: Bounds, format: ValueFormat) -> int:
    """Return how many elements may have any finite value of their format."""
    lowest, highest = map(float, format.limits)
    if format.is_float:
        lowest, highest = -format.largest_finite, format.largest_finite
    return int(((bounds.low <= lowest) & (bounds.high >= highest)).sum())


def _changed_elements(memory: Memory, codes: torch.Tensor) -> Divergence | None:
    """Return the elements that no op writes, and that the launch has changed."""
    if memory.content is None or memory.format is None:
        return None
    before = codes_of(memory.content, memory.format)
    changed = ((codes != before) & ~memory.may_change).nonzero().squeeze(-1)
    if not changed.numel():
        return None
    first = changed[:1]
    (expected,) = decode(before[first], memory.format).tolist()
    (actual,) = decode(codes[first], memory.format).tolist()
    return Divergence(
        changed.numel(), codes.numel(), int(first), actual, expected, expected, is_outside=True
    )


def _changed_bytes(memory: Memory, after: torch.Tensor) -> Divergence | None:
    """Return the bytes of an array that the kernel only reads, and that the launch has changed."""
    if memory.content is None:
        return None
    changed = (after[: memory.num_bytes] != memory.content).nonzero().squeeze(-1)
    if not changed.numel():
        return None
    first = int(changed[0])
    before, actual = float(memory.content[first]), float(after[first])
    return Divergence(
        changed.numel(), memory.num_bytes, first, actual, before, before, is_outside=True
    )
