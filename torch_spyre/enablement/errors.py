"""What can be wrong with what `spyre enable` was given."""

from torch_spyre.errors import SpyreError


class ModelNotFoundError(SpyreError, ValueError):
    """No model goes by this name, and no file does."""


class ModelInputError(SpyreError, ValueError):
    """The model is known and cannot be used as asked."""


class MissingPackageError(SpyreError, ImportError):
    """A package that is needed for this model is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install {package}")
