"""Runs a function when a module is imported, without importing it for that."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Calls `action(module)` once `name` is loaded: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(action)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        actions = _waiting.pop(fullname, None)
        if actions is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            _waiting[fullname] = actions
            return None
        spec.loader = _Loader(spec.loader, actions)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(
        self, loader: importlib.abc.Loader, actions: list[Callable[[ModuleType], None]]
    ) -> None:
        self._loader = loader
        self._actions = actions

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        for action in self._actions:
            action(module)
