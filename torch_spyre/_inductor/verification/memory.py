"""The memory of a kernel as the interpreter sees it: known bytes, and bounds of later writes."""

import torch

from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.value_formats import ValueFormat, codes_of, decode
from torch_spyre.errors import NoReferenceError


class Memory:
    """One allocation: the bytes that it had before the launch, and the bounds of later writes."""

    def __init__(self, content: torch.Tensor | None, num_bytes: int = 0) -> None:
        # None: the content is undefined.
        self.content = content
        self.num_bytes = num_bytes if content is None else content.numel()
        self.format: ValueFormat | None = None
        self.bounds: Bounds | None = None
        # The elements that ops have written, and those that may change: padding may be computed.
        self.written = torch.zeros(0, dtype=torch.bool)
        self.may_change = self.written

    def read(self, positions: torch.Tensor, format: ValueFormat) -> Bounds:
        """Return the values of elements."""
        if self.bounds is None:
            if self.content is None:
                return Bounds.unknown(positions.shape, is_float=format.is_float)
            codes = codes_of(self.content, format)
            self._check(positions, codes.numel())
            return Bounds.exact(decode(codes[positions], format))
        self._check_format(format)
        self._check(positions, self.bounds.low.numel())
        values = self.bounds.map(lambda side: side[positions])
        if values.maybe_nan is not None and bool(values.maybe_nan.any()):
            return values
        if torch.equal(values.low, values.high):
            return Bounds.exact(values.low)
        return Bounds(values.low, values.high)

    def write(
        self, positions: torch.Tensor, values: Bounds, format: ValueFormat, stick: int
    ) -> None:
        """Write elements; several values for one element are a choice between them.

        Other elements of the same `stick` consecutive ones may have any value afterwards.
        """
        current = self._begin_writing(format)
        self._check(positions, current.low.numel())
        flat = positions.reshape(-1)
        values = values.expand(positions.shape).map(lambda side: side.reshape(-1))
        if flat.unique().numel() < flat.numel():
            self._write_choices(flat, values, current)
        else:
            current.low[flat], current.high[flat] = values.low, values.high
            self._set_maybe_nan(flat, values.maybe_nan)
        self.written[flat] = True
        count = len(self.may_change)
        sticks = torch.zeros(-(-count // stick), dtype=torch.bool)
        sticks[flat // stick] = True
        self.may_change |= sticks.repeat_interleave(stick)[:count]

    def forget(self, format: ValueFormat) -> None:
        """Make all elements unknown, after a write that has no reference."""
        current = self._begin_writing(format)
        unknown = Bounds.unknown(current.shape, is_float=current.is_float)
        self.bounds = Bounds(unknown.low, unknown.high, unknown.maybe_nan)
        self.may_change[:] = True

    def _write_choices(self, flat: torch.Tensor, values: Bounds, current: Bounds) -> None:
        maybe_nan = values.may_be_nan
        low, high = values.low, values.high
        if values.is_float:
            low = torch.where(maybe_nan, -torch.inf, low)
            high = torch.where(maybe_nan, torch.inf, high)
        current.low.scatter_reduce_(0, flat, low, "amin", include_self=False)
        current.high.scatter_reduce_(0, flat, high, "amax", include_self=False)
        self._set_maybe_nan(flat, None)
        if bool(maybe_nan.any()):
            self._set_maybe_nan(flat[maybe_nan], torch.ones_like(maybe_nan[maybe_nan]))

    def _set_maybe_nan(self, flat: torch.Tensor, maybe_nan: torch.Tensor | None) -> None:
        assert self.bounds is not None
        known = self.bounds.maybe_nan
        if known is None:
            if maybe_nan is None or not bool(maybe_nan.any()):
                return
            known = torch.zeros_like(self.bounds.low, dtype=torch.bool)
            self.bounds = Bounds(self.bounds.low, self.bounds.high, known)
        known[flat] = False if maybe_nan is None else maybe_nan

    def _begin_writing(self, format: ValueFormat) -> Bounds:
        """Return bounds of all elements, which can be changed."""
        if self.bounds is not None:
            self._check_format(format)
            return self.bounds
        self.format = format
        if self.content is None:
            count = self.num_bytes // format.bytes
            unknown = Bounds.unknown((count,), is_float=format.is_float)
            self.bounds = unknown
        else:
            values = decode(codes_of(self.content, format), format)
            self.bounds = Bounds(values, values.clone())
        self.written = torch.zeros(self.bounds.low.numel(), dtype=torch.bool)
        self.may_change = self.written.clone()
        return self.bounds

    def _check_format(self, format: ValueFormat) -> None:
        if format != self.format:
            raise NoReferenceError("memory that is written in one format and accessed in another")

    @staticmethod
    def _check(positions: torch.Tensor, count: int) -> None:
        if positions.numel() and (int(positions.min()) < 0 or int(positions.max()) >= count):
            raise NoReferenceError("an access outside of the tensor's memory")
