"""The records that describe patches and private names."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum


class Lifetime(StrEnum):
    """How long a patch stays applied."""

    PROCESS = "process"
    COMPILATION = "compilation"


@dataclass(frozen=True)
class PrivateName:
    """A name inside PyTorch, and what we rely on beyond its existence."""

    path: str
    parameters: tuple[str, ...] = ()
    """Parameters that must be in the signature: we pass them by name, or override the function."""
    members: tuple[str, ...] = ()
    """Attributes that must exist: methods we call or override."""


@dataclass(frozen=True)
class PrivateUse:
    """A private name that the package uses without changing it."""

    name: PrivateName
    purpose: str


@dataclass(frozen=True)
class Patch:
    """A change to PyTorch, or to a library between PyTorch and us.

    `apply` makes the change and registers its inverse on the stack that it is called with.
    """

    name: str
    targets: tuple[PrivateName, ...]
    changes: str
    """What is different for tensors on a card."""
    reason: str
    """Why no public interface of PyTorch does."""
    breaks: str
    """What fails for users when PyTorch changes the targets."""
    apply: Callable[[ExitStack], None]
    lifetime: Lifetime = Lifetime.PROCESS
    after_import: str = ""
    """Apply only once this module has been loaded; empty: at `import torch`."""
