"""Find the private names of PyTorch in source files, for the test of `uses.USES`."""

import ast
from collections.abc import Iterator
from pathlib import Path


def private_names(source: str) -> set[str]:
    """Return the dotted paths of the private names of PyTorch that a Python source mentions."""
    tree = ast.parse(source)
    aliases = {"torch": "torch"}
    names: set[str] = set()
    for node in ast.walk(tree):
        for alias, path in _imports(node):
            aliases[alias] = path
            names.add(path)
    visitor = _Attributes(aliases)
    visitor.visit(tree)
    return {name for name in names | visitor.names if is_private(name)}


def is_private(path: str) -> bool:
    """Return whether a path leads through a private name. Ops (`aten._to_copy`) are public."""
    first, *names = path.split(".")
    if first != "torch" or names[:1] == ["ops"]:
        return False
    return any(name.startswith("_") and not name.startswith("__") for name in names)


def names_in_package(package: Path) -> dict[str, list[str]]:
    """Return the private names in the files of a package, with the files that mention them."""
    users: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        for name in private_names(path.read_text(encoding="utf-8")):
            users.setdefault(name, []).append(str(path.relative_to(package)))
    return users


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the local name and the dotted path of everything imported from PyTorch."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "torch" and alias.asname:
                yield alias.asname, alias.name
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        if (node.module or "").split(".")[0] != "torch":
            return
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


class _Attributes(ast.NodeVisitor):
    """Collects attribute chains that begin with an imported name."""

    def __init__(self, aliases: dict[str, str]) -> None:
        self.aliases = aliases
        self.names: set[str] = set()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes: list[str] = []
        value: ast.expr = node
        while isinstance(value, ast.Attribute):
            attributes.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self.aliases:
            self.names.add(".".join([self.aliases[value.id], *reversed(attributes)]))
        else:
            self.generic_visit(node)
