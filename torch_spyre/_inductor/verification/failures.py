"""What stops a verification without a verdict."""


class CannotVerify(Exception):
    """A result has no reference; the text says why. Never leaves this package."""
