"""Run a function when a module has been loaded, without importing the module for that."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[], None]
_actions: dict[str, list[Action]] = {}


def after_import(undo: ExitStack, name: str, action: Action) -> None:
    """Call `action` each time the module `name` has been loaded: now, if it is already."""
    if not _actions:
        sys.meta_path.insert(0, _Finder())
    actions = _actions.setdefault(name, [])
    actions.append(action)
    undo.callback(actions.remove, action)
    module = sys.modules.get(name)
    if module is None:
        return
    spec = module.__spec__
    if spec is not None and getattr(spec, "_initializing", False):
        # This module imports PyTorch, and so us: no finder is called when its import ends.
        spec.__class__ = _SpecOfUnfinishedModule
    else:
        action()


class _Finder(MetaPathFinder):
    """Finds modules as the other finders do, and puts our loader in front of theirs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _actions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # duck typing
                return spec
        return None


class _Loader:
    """Delegates to the original loader, then runs the actions of the loaded module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _run_actions(module)


class _SpecOfUnfinishedModule(ModuleSpec):
    """Runs the actions when the import machinery marks the module as loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            self.__class__ = ModuleSpec  # type: ignore[assignment]  # instances may change class
            # The module of a failed import has been removed.
            if self.name in sys.modules:
                _run_actions(sys.modules[self.name])


def _run_actions(module: ModuleType) -> None:
    for action in _actions[module.__name__]:
        action()
