"""Errors of meta functions are raised, not also logged."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_meta_functions() -> Iterator[None]:
    """Disable the logger of fake tensors: it logs as an error what is raised anyway."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled
