"""Loggers of the package, and how TORCH_LOGS and deprecated variables set their levels.

Code logs through `get_logger(component)`; loggers are named `torch_spyre.<component>`, without the
underscore of `_inductor`. A component's level is that of the first of four layers that names it or
one of its parents (the nearest name within the layer): calls of `set_log_level`, TORCH_LOGS, the
deprecated variables, and the default WARNING. docs/logging.md lists what each component logs.

TORCH_LOGS accepts two spellings, because upstream had two. Both set the same loggers.

    torch_spyre.device    as in PyTorch: `+name` DEBUG, `name` INFO, `-name` ERROR
    spyre.device          the older one: `+name` INFO,  `name` INFO, `-name` DISABLED
    either:LEVEL          that level

PyTorch accepts these names because `pytorch_internals/torch_logs.py` registers them. Limits:
- with TORCH_DEVICE_BACKEND_AUTOLOAD=0 they are not registered in time: `import torch` rejects
  `spyre...` and `...:LEVEL`, and for `torch_spyre...` it imports all our packages to find loggers;
- `torch._logging.set_logs` treats `torch_spyre` as any other module;
- TORCH_LOGS_OUT is followed; TORCH_LOGS_FORMAT is not, our line format is fixed;
- `all` means PyTorch's loggers, not ours.
"""

import logging
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TextIO

from torch_spyre import knobs
from torch_spyre.errors import KnobError

ROOT = "spyre"
PACKAGE = "torch_spyre"
FORMAT = "[%(levelname)s] [%(name)s] %(message)s"
# With several processes, as torchrun starts them, lines also name the local rank.
RANK_FORMAT = "[%(levelname)s] [rank {rank}] [%(name)s] %(message)s"
COMPONENTS = (
    ROOT,
    "spyre.inductor",
    "spyre.inductor.lowering",
    "spyre.inductor.stickify",
    "spyre.inductor.codegen",
    "spyre.inductor.passes",
    "spyre.runtime",
    "spyre.execution",
    "spyre.device",
)


class LogLevel(IntEnum):
    """Python's levels, and DISABLED above them all."""

    NOTSET = logging.NOTSET
    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR
    CRITICAL = logging.CRITICAL
    DISABLED = 60


@dataclass(frozen=True)
class OutputConfig:
    """The outputs of log lines. Files receive the same lines as stderr."""

    stream: str
    files: tuple[str, ...]
    format: str


@dataclass(frozen=True)
class _Entry:
    """One entry of TORCH_LOGS that is ours; `level` is None if its text names no level."""

    text: str
    component: str
    level: LogLevel | None


class _StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, so that redirecting it works."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_Layer = dict[str, tuple[LogLevel, str]]  # component -> its level, and the source to report

_programmatic: _Layer = {}
_torch_logs: _Layer = {}
_legacy: _Layer = {}
_default: _Layer = {ROOT: (LogLevel.WARNING, "default")}
_LAYERS = (_programmatic, _torch_logs, _legacy, _default)

_stderr_handler = _StandardErrorHandler()
_file_handlers: dict[str, logging.FileHandler] = {}
_listeners: list[Callable[[], None]] = []
_log_file: str | None = None
_problems: list[str] = []


def configure() -> None:
    """Set levels and outputs from the environment, discarding earlier calls. Runs at autoload.

    Never raises for an invalid variable: `import torch` must not fail over a log setting. Each
    problem becomes a warning and is listed by `problems()`.
    """
    for layer in (_programmatic, _torch_logs, _legacy):
        for component in layer:
            _set_level(component, LogLevel.NOTSET)
        layer.clear()
    _problems.clear()
    _close_files()
    steps = (_read_debug, _read_inductor_log, _read_torch_logs, _read_log_file, _read_torch_file)
    for step in steps:
        try:
            step()
        except (KnobError, OSError) as error:
            _report(str(error))
    _apply()


def problems() -> tuple[str, ...]:
    """Return the problems that `configure` found in the environment."""
    return tuple(_problems)


def get_logger(component: str) -> logging.Logger:
    """Return the logger of a component; a module may pass its `__name__`."""
    return logging.getLogger(f"torch_{canonical_name(component)}")


def on_change(listener: Callable[[], None]) -> None:
    """Call `listener` whenever levels change: for code that keeps a level somewhere else."""
    _listeners.append(listener)


def canonical_name(component: str) -> str:
    """Return `spyre.inductor.passes` for `torch_spyre._inductor.passes`, and so on."""
    parts = component.split(".")
    if parts[0] not in (ROOT, PACKAGE):
        raise ValueError(f"{component!r} is not a component of Spyre: it must start with {ROOT!r}")
    return ".".join([ROOT, *(part.lstrip("_") for part in parts[1:])])


def list_components() -> list[str]:
    return list(COMPONENTS)


def get_log_level(component: str = ROOT) -> LogLevel:
    """Return the effective level; an unlisted component has that of its nearest parent."""
    return _resolve(component)[0]


def get_config_source(component: str = ROOT) -> str:
    """Return who set it: `programmatic`, `TORCH_LOGS`, `legacy:<variable>` or `default`."""
    return _resolve(component)[1]


def set_log_level(component: str, level: str | int) -> None:
    """Set the level of a component and its children. Raises ValueError for an unknown level."""
    _programmatic[canonical_name(component)] = (_as_level(level), "programmatic")
    _apply()


def enable(component: str = ROOT) -> None:
    set_log_level(component, LogLevel.INFO)


def disable(component: str = ROOT) -> None:
    set_log_level(component, LogLevel.DISABLED)


def get_log_file() -> str | None:
    return _log_file


def set_log_file(path: str | None) -> None:
    """Append log lines to `path` as well, instead of the previous file; None for no file."""
    global _log_file
    if path == _log_file:
        return
    if path is not None:
        _open_file(path)  # first, so that a path that cannot be opened changes nothing
    if _log_file is not None:
        _close_file(_log_file)
    _log_file = path


def get_effective_config() -> dict[str, str]:
    """Return the level name of every listed component."""
    return {component: get_log_level(component).name for component in COMPONENTS}


def get_config_for_cpp() -> dict[str, int]:
    """Return the level of every listed component as an integer, for the extension."""
    return {component: int(get_log_level(component)) for component in COMPONENTS}


def get_output_config() -> OutputConfig:
    return OutputConfig("stderr", tuple(_file_handlers), _format())


def _format() -> str:
    rank = knobs.DeviceKnobs.local_rank.text()
    return FORMAT if rank is None else RANK_FORMAT.format(rank=rank)


def _resolve(component: str) -> tuple[LogLevel, str]:
    name = canonical_name(component)
    parts = name.split(".")
    nearest_first = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next(layer[name] for layer in _LAYERS for name in nearest_first if name in layer)


def _as_level(level: str | int) -> LogLevel:
    try:
        return LogLevel[level.upper()] if isinstance(level, str) else LogLevel(level)
    except (KeyError, ValueError):
        names = ", ".join(LogLevel.__members__)
        raise ValueError(f"no log level {level!r}; there are {names}") from None


def _read_debug() -> None:
    if knobs.logging.debug != 1:
        return
    _deprecated("TORCH_SPYRE_DEBUG=1 as a log level", f"TORCH_LOGS='+{PACKAGE}'")
    _legacy[ROOT] = (LogLevel.DEBUG, "legacy:TORCH_SPYRE_DEBUG")


def _read_inductor_log() -> None:
    if not knobs.logging.inductor:
        return
    _deprecated("SPYRE_INDUCTOR_LOG", "TORCH_LOGS='spyre.inductor:INFO'")
    level = LogLevel.INFO
    try:
        level = _as_level(knobs.logging.inductor_level)
    except ValueError as error:
        _report(f"SPYRE_INDUCTOR_LOG_LEVEL: {error}; using INFO")
    _legacy["spyre.inductor"] = (level, "legacy:SPYRE_INDUCTOR_LOG")


def _read_torch_logs() -> None:
    entries = _our_entries(knobs.pytorch.logs or "")
    if not entries:
        return
    for entry in entries:
        if entry.level is None:
            names = ", ".join(LogLevel.__members__)
            _report(f"TORCH_LOGS: {entry.text!r} ignored: no such level; there are {names}")
            continue
        if not _is_known_module(entry):
            _report(f"TORCH_LOGS: {entry.text!r} names no module of {PACKAGE}")
        _torch_logs[entry.component] = (entry.level, "TORCH_LOGS")


def torch_logs_settings() -> list[str]:
    """Return the names in TORCH_LOGS that are ours, with their levels and without their signs."""
    return [entry.text.lstrip("+-") for entry in _our_entries(knobs.pytorch.logs or "")]


def _our_entries(torch_logs: str) -> list[_Entry]:
    if ROOT not in torch_logs:  # the common case: saves compiling a pattern
        return []
    entry = re.compile(r"([+-]?)((torch_)?spyre(?:\.\w+)*)(?::(\w*))?")
    matches = (entry.fullmatch(re.sub(r"\s+", "", text)) for text in torch_logs.split(","))
    entries = []
    for match in filter(None, matches):
        sign, name, is_package, level_name = match.groups()
        if level_name is not None:
            level = LogLevel.__members__.get(level_name.upper())
        elif is_package:
            level = {"+": LogLevel.DEBUG, "": LogLevel.INFO, "-": LogLevel.ERROR}[sign]
        else:
            level = {"+": LogLevel.INFO, "": LogLevel.INFO, "-": LogLevel.DISABLED}[sign]
        entries.append(_Entry(match.group(), canonical_name(name), level))
    return entries


def _is_known_module(entry: _Entry) -> bool:
    """Return False for a misspelt module. `spyre.*` names are free: unlisted ones inherit."""
    name = entry.text.lstrip("+-").partition(":")[0]
    if name.startswith(ROOT) or entry.component in COMPONENTS:
        return True
    parts = ["_inductor" if part == "inductor" else part for part in name.split(".")[1:]]
    module = Path(__file__).parent.joinpath(*parts)
    return module.is_dir() or module.with_suffix(".py").is_file()


def _read_log_file() -> None:
    path = knobs.logging.file
    if path is not None:
        _deprecated("SPYRE_LOG_FILE", "torch_spyre.logging_config.set_log_file")
        set_log_file(path)


def _read_torch_file() -> None:
    path = knobs.pytorch.logs_out
    if path is not None and _torch_logs:
        _open_file(path)


def _open_file(path: str) -> None:
    if path in _file_handlers:
        return
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter(_format()))
    _file_handlers[path] = handler
    for root in (ROOT, PACKAGE):
        logging.getLogger(root).addHandler(handler)


def _close_file(path: str) -> None:
    handler = _file_handlers.pop(path)
    for root in (ROOT, PACKAGE):
        logging.getLogger(root).removeHandler(handler)
    handler.close()


def _close_files() -> None:
    global _log_file
    for path in list(_file_handlers):
        _close_file(path)
    _log_file = None


def _apply() -> None:
    """Write the levels into the loggers of both trees, `spyre` and `torch_spyre`."""
    _stderr_handler.setFormatter(logging.Formatter(_format()))
    for root in (ROOT, PACKAGE):
        logger = logging.getLogger(root)
        logger.propagate = False  # lines would otherwise appear twice under logging.basicConfig
        logger.addHandler(_stderr_handler)
    for component in {*COMPONENTS, *_programmatic, *_torch_logs, *_legacy}:
        _set_level(component, get_log_level(component))
    for listener in _listeners:
        listener()


def _set_level(component: str, level: LogLevel) -> None:
    """Set the level of a component's logger, and of loggers by its older and its module's name."""
    name = f"torch_{component}"
    module = name.replace("torch_spyre.inductor", "torch_spyre._inductor")
    for logger in {component, name, module}:
        logging.getLogger(logger).setLevel(level)


def _report(problem: str) -> None:
    _problems.append(problem)
    warnings.warn(problem, UserWarning, stacklevel=3)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)
