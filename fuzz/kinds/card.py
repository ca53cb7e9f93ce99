"""What kinds that use a card share: canary tensors, and which errors a launch may raise."""

import torch

from fuzz.kind import Rejected, Violation

_PATTERN = torch.full((96,), 0x5A5A5A5A, dtype=torch.int32)


class Canaries:
    """Tensors on the card between those of an input; nothing that an input does may change them."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] = []

    def add(self) -> None:
        self._tensors.append(_PATTERN.to("spyre"))

    def check(self) -> None:
        """Raise if a canary has changed."""
        for tensor in self._tensors:
            if not torch.equal(tensor.cpu(), _PATTERN):
                raise Violation("the bytes of another tensor on the card were changed")


def synchronize() -> None:
    """Wait for the card, and raise the error of a launch."""
    torch.get_device_module("spyre").synchronize()


def rejection_of_launch(error: Exception, kernel: str) -> Rejected:
    """Return the rejection that a failed launch is; raise the error if it is not a documented one.

    A launch raises IndexError for an index out of bounds and RuntimeError otherwise, and names the
    kernel.
    """
    message = str(error)
    is_documented = isinstance(error, RuntimeError | IndexError | ValueError | MemoryError)
    if not is_documented or "INTERNAL ASSERT" in message or kernel not in message:
        raise error
    return Rejected(message)
