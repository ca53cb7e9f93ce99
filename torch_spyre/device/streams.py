"""Streams and events."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self, TypeVar

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.index import DeviceLike, device_index

_AnyStream = TypeVar("_AnyStream", bound=torch.Stream)
_LAST_LOW_PRIORITY_STREAM = 32


class StreamDevice(str):
    """The device of a stream, as an attribute and as a method.

    PyTorch uses `stream.device` as an attribute with `type` and `index`; upstream documents
    `stream.device()`. It is a string because PyTorch's C++ accepts only strings and `torch.device`,
    which cannot be subclassed. It compares and hashes like a `torch.device`.
    """

    def __call__(self) -> torch.device:
        return torch.device(str(self))

    @property
    def type(self) -> str:
        return self().type

    @property
    def index(self) -> int:  # type: ignore[override]  # the device's, not str's
        return self().index

    def __eq__(self, other: object) -> bool:
        return self() == (other() if isinstance(other, StreamDevice) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self())

    def __repr__(self) -> str:
        return repr(self())


class Stream(torch.Stream):
    """A queue of work on one card. As a context manager it makes itself the current stream.

    Priority 0 selects the next of the 32 low-priority streams, any other priority the next of the
    32 high-priority streams, round robin.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **existing: Any) -> Self:
        if existing:  # wraps an existing stream: stream_id, device_index, device_type
            return _checked_stream(super().__new__(cls, **existing))
        return super().__new__(
            cls, device=torch.device(DEVICE_NAME, device_index(device)), priority=priority
        )

    @property
    def id(self) -> int:
        return self.stream_id

    @property
    def priority(self) -> int:
        return -1 if self.stream_id > _LAST_LOW_PRIORITY_STREAM else 0

    @property
    def device(self) -> StreamDevice:  # type: ignore[override]  # callable on top of torch's
        return StreamDevice(f"{DEVICE_NAME}:{self.device_index}")

    # PyTorch's methods do not check the type of events and streams, or reject subclasses.
    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event, by default a new one, and return it."""
        recorded = Event() if event is None else _checked_event(event)
        recorded.record(self)
        return recorded

    def wait_event(self, event: torch.Event) -> None:
        super().wait_event(_checked_event(event))

    def wait_stream(self, stream: torch.Stream) -> None:
        super().wait_stream(_checked_stream(stream))

    def __repr__(self) -> str:
        return f"<torch_spyre.Stream device={self.device_index} id={self.stream_id}>"


class Event(torch.Event):
    """A position in a stream. With timing, `elapsed_time` returns milliseconds of device time."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Self:
        if interprocess:
            raise RuntimeError("Spyre events cannot be shared between processes")
        return super().__new__(
            cls, device=torch.device(DEVICE_NAME, _C.current_device()), enable_timing=enable_timing
        )

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event in a stream, by default the current one."""
        super().record(None if stream is None else _checked_stream(stream))

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make a stream, by default the current one, wait for the event."""
        super().wait(None if stream is None else _checked_stream(stream))

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the milliseconds of device time until a later event; both must be complete."""
        return _C.elapsed_time(self, end_event)


def _checked_stream(stream: _AnyStream) -> _AnyStream:
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"expected a stream of a card, got a {type(stream).__name__}")
    device = torch.Stream.device.__get__(stream)  # not Stream's own
    if device.type != DEVICE_NAME:
        raise ValueError(f"expected a stream of a card, got one of {device}")
    return stream


def _checked_event(event: torch.Event) -> torch.Event:
    if not isinstance(event, torch.Event):
        raise TypeError(f"expected an event, got a {type(event).__name__}")
    return event


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def current_stream(device: DeviceLike = None) -> Stream:
    return _wrap(torch.accelerator.current_stream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    current = torch.accelerator.current_stream(device_index(device))
    return Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream: torch.Stream) -> None:
    """Make a stream the current one of its card, and the card current."""
    torch.accelerator.set_stream(_checked_stream(stream))


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    """Return a context manager that makes the stream current; None changes nothing."""
    return nullcontext() if stream is None else _checked_stream(stream)
