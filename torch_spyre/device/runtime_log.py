"""Logs launches and the loading of programs at DEBUG. While that is off, a launch checks a pointer.

The other lines of the runtime (allocations, copies) are those of TORCH_SPYRE_DEBUG.
"""

import logging

from torch_spyre import _C, logging_config

logger = logging_config.get_logger("torch_spyre.runtime")


def follow_level() -> None:
    """Log launches if the level of the logger says so, also after it changes."""
    _update()
    logging_config.on_change(_update)


def _update() -> None:
    _C._set_launch_log(_log_launch if logger.isEnabledFor(logging.DEBUG) else None)


def _log_launch(
    bundle: str, programs: int, card: int, stream: int, is_loading: bool, line: str
) -> None:
    if is_loading:
        logger.debug("load the %d programs of %s on card %d", programs, bundle, card)
    suffix = f" at {line}" if line else ""
    logger.debug("launch %s on card %d, stream %d%s", bundle, card, stream, suffix)
