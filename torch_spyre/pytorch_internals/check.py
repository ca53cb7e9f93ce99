"""Look up private names in the installed PyTorch."""

import importlib
import inspect
from types import ModuleType
from typing import Any

from torch_spyre.pytorch_internals.records import PrivateName
from torch_spyre.pytorch_internals.replacement import ORIGINAL


def resolve(path: str) -> Any:
    """Return the object at a dotted path. Raises AttributeError for a name that does not exist."""
    first, *names = path.split(".")
    value: Any = importlib.import_module(first)
    prefix = first
    for name in names:
        prefix = f"{prefix}.{name}"
        try:
            value = getattr(value, name)
        except AttributeError:
            if not isinstance(value, ModuleType):
                raise
            value = _submodule(value, name)
    return value


def _submodule(parent: ModuleType, name: str) -> ModuleType:
    path = f"{parent.__name__}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(f"module {parent.__name__!r} has no attribute {name!r}") from error


def exists(name: PrivateName) -> bool:
    """Return whether the name exists. Cheap: looks at neither parameters nor members."""
    try:
        resolve(name.path)
    except AttributeError:
        return False
    return True


def problem_of(name: PrivateName) -> str | None:
    """Return what differs from our expectations of a private name; None if nothing does."""
    if not exists(name):
        return f"{name.path} is gone"
    value = resolve(name.path)
    absent = [member for member in name.members if not hasattr(value, member)]
    if absent:
        return f"{name.path} has no {', '.join(absent)} any more"
    if not name.parameters:
        return None
    original = getattr(value, ORIGINAL, value)
    parameters = inspect.signature(inspect.unwrap(original)).parameters
    absent = [parameter for parameter in name.parameters if parameter not in parameters]
    if absent:
        return f"{name.path} has no parameter {', '.join(absent)} any more"
    return None
