"""PyTorch accepts the names of our loggers in TORCH_LOGS.

PyTorch parses TORCH_LOGS right after it has loaded the backends, and `import torch` fails if it
contains an unknown name. So our names are registered before that, without a logger of PyTorch.
"""

import re
from collections.abc import Callable
from contextlib import ExitStack

from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import set_attribute

_LEVELS = r"((?:^|[,\s])[+-]?(?:torch_)?spyre[\w.]*):\w*"


def _apply(undo: ExitStack) -> None:
    from torch_spyre import logging_config

    settings = logging_config.torch_logs_settings()
    if not settings:
        return
    from torch._logging import _internal

    for setting in settings:
        _internal.register_log(setting, [])
    if all(":" not in setting for setting in settings):
        return
    # PyTorch checks the syntax before the names, and allows no colon: hide our levels from it.
    check: Callable[[str], bool] = _internal._validate_settings
    levels = re.compile(_LEVELS)

    def _validate_settings(settings: str) -> bool:
        return check(levels.sub(r"\1", settings))

    set_attribute(undo, _internal, "_validate_settings", _validate_settings)


PATCH = Patch(
    name="torch_logs",
    targets=(
        PrivateName("torch._logging._internal.register_log", ("setting_name", "log_name")),
        PrivateName("torch._logging._internal._validate_settings", ("settings",)),
    ),
    changes="TORCH_LOGS accepts `spyre...`, `torch_spyre...` and `name:LEVEL`. PyTorch stays "
    "unchanged if TORCH_LOGS names none of our loggers.",
    reason="The names of loggers are registered by PyTorch's own modules only.",
    breaks="`import torch` fails with 'Unable to parse log settings' if TORCH_LOGS names ours.",
    apply=_apply,
)
