"""Finds the origins of the nodes of a graph, and tracks which node a loop body belongs to.

Dynamo and AOTAutograd record the stack trace and the modules of each op in the nodes of a graph,
backward graphs included. `tracking` makes the origins of a graph available while it is compiled.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.origin import Origin
from torch_spyre.errors import UnsupportedError
from torch_spyre.user_frames import UserLine, library_folders

# A frame in the stack trace of a node: file, line, and the source line. The innermost is last.
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*\n? *([^\n]*)')
# The variable that holds the outermost module, as Dynamo writes it.
_ROOT = re.compile(r"^[LG]\[['\"](\w+)['\"]\]\.?")
# The names of the outermost module in a method of its own, and in Dynamo's wrapper.
_WRAPPED = ("self", "fn")
_MAX_LISTED = 3
_REFERENCE = re.compile(r"# @(\w*)")
_KEY = re.compile(r"\[['\"]?(\w+)['\"]?\]")

# The names of the nodes that a spec comes from: that of the op, and that of the op which reads
# elements through index tensors. Empty where there is none.
SpecNodes = tuple[str, str]


@dataclass
class GraphOrigins:
    """The origins of the nodes of one graph, by node name.

    `default` is the origin of nodes without a stack trace: those of an eager op.
    """

    by_name: Mapping[str, Origin] = field(default_factory=dict)
    default: Origin | None = None

    def of(self, node: torch.fx.Node) -> Origin | None:
        """Return the origin of a node, which a pass of Inductor may have added to the graph."""
        known = self.by_name.get(node.name)
        if known is not None:
            return known
        origin = _origin(node, node)
        if origin.file:
            # The name of a node of the original graph, by which the generated code refers to it.
            line = (origin.file, origin.line, origin.module)
            for known in self.by_name.values():
                if (known.file, known.line, known.module) == line:
                    return replace(origin, node=known.node)
            return replace(origin, node="")
        return self.default

    def lines(self, fallbacks: Mapping[str, UserLine]) -> _C.GraphLines:
        """Return the lines for the run time, also of the ops that fall back, by their names."""
        nodes = {
            name: (origin.op, origin.location, origin.code, origin.module)
            for name, origin in self.by_name.items()
        }
        return _C.GraphLines(nodes, {op: str(line) for op, line in fallbacks.items()})


_current: ContextVar[GraphOrigins | None] = ContextVar("origins", default=None)
# The nodes whose loop bodies are being evaluated, the innermost last. Only one thread compiles.
_enclosing: list[torch.fx.Node] = []


@contextmanager
def tracking(origins: GraphOrigins) -> Iterator[None]:
    """Compile a graph with these origins."""
    token = _current.set(origins)
    try:
        yield
    finally:
        _current.reset(token)


def current_origins() -> GraphOrigins | None:
    """Return the origins of the graph that is being compiled."""
    return _current.get()


def loader_of(node: torch.fx.Node | None, loader: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop body that, while it is evaluated, belongs to a node."""
    if node is None:
        return loader

    def tracked(*indices: Any) -> Any:
        with within(node):
            return loader(*indices)

    return tracked


@contextmanager
def within(node: torch.fx.Node | None) -> Iterator[None]:
    """Evaluate loop bodies for a node."""
    if node is None:
        yield
        return
    _enclosing.append(node)
    try:
        yield
    finally:
        _enclosing.pop()


def current_origin() -> Origin | None:
    """Return the origin of the loop body that is being evaluated."""
    origins = _current.get()
    return origins.of(_enclosing[-1]) if origins is not None and _enclosing else None


def origins_of_graph(module: torch.fx.GraphModule, source: torch.fx.GraphModule) -> GraphOrigins:
    """Return the origins of a graph that was traced from `source`, whose ops the program called."""
    called = {node.name: node for node in source.graph.nodes}
    return GraphOrigins(
        {
            node.name: _origin(node, called.get(_source_name(node), node))
            for node in module.graph.nodes
            if node.op == "call_function"
        }
    )


def add_origins(error: UnsupportedError, origins: Iterable[Origin | None]) -> None:
    """Add a note with the lines that an unsupported feature is needed for."""
    calls = dict.fromkeys(str(origin) for origin in origins if origin is not None)
    if calls:
        error.add_note(f"It is needed for {', '.join(list(calls)[:_MAX_LISTED])}")


def nodes_of(spec: OpSpec) -> SpecNodes:
    """Return the names of the nodes that a spec comes from."""
    origins = (spec.origin, spec.index_origin)
    node, index_node = (origin.node if origin is not None else "" for origin in origins)
    return node, index_node


def from_nodes(specs: Sequence[OpSpec], nodes: Sequence[SpecNodes]) -> list[OpSpec]:
    """Return the specs with their origins: those of the nodes in the graph being compiled."""
    return [
        replace(spec, origin=_origin_named(node), index_origin=_origin_named(index_node))
        for spec, (node, index_node) in zip(specs, nodes, strict=True)
    ]


def node_reference(origin: Origin) -> str:
    """Return the reference to an origin in the text of loops in generated code."""
    return f"@{origin.node}"


def with_origins(text: str) -> str:
    """Return the text of loops with the origins in place of the references to them."""
    return _REFERENCE.sub(lambda match: f"# {_origin_named(match[1]) or 'unknown'}", text)


def _origin_named(node: str) -> Origin | None:
    if not node:
        return None
    origins = _current.get()
    return origins.by_name.get(node, Origin(node)) if origins is not None else Origin(node)


def users_line(node: torch.fx.Node) -> UserLine | None:
    """Return the line of the user's code that a node comes from, or None if unknown."""
    file, line, _ = _users_frame(node.meta.get("stack_trace") or "")
    return UserLine(file, line) if file else None


def _origin(node: torch.fx.Node, called: torch.fx.Node) -> Origin:
    """Return the origin of a node that was traced from `called`, an op before decompositions."""
    file, line, code = _users_frame(node.meta.get("stack_trace") or "")
    op = str(called.meta.get("original_aten") or called.target)
    modules = called.meta.get("nn_module_stack") or called.meta.get("fwd_nn_module_stack") or {}
    return Origin(node.name, op, file, line, code, _module_path(list(modules.values())))


def _source_name(node: torch.fx.Node) -> str:
    """Return the name of the node that this one was traced from."""
    sources = node.meta.get("from_node")
    return str(sources[0].name) if sources else ""


@lru_cache(maxsize=1024)
def _users_frame(stack_trace: str) -> tuple[str, int, str]:
    """Return file, line and code of the innermost frame outside of PyTorch and this package."""
    frames = _FRAME.findall(stack_trace)
    if not frames:
        return "", 0, ""
    users = [frame for frame in frames if not frame[0].startswith(library_folders())]
    file, line, code = (users or frames)[-1]
    return file, int(line), code.strip()


def _module_path(modules: Sequence[tuple[str, object]]) -> str:
    """Return the path of the innermost module, in the form of `named_modules()`."""
    if not modules:
        return ""
    path = modules[-1][0].replace("._modules", "")
    root = _ROOT.match(path)
    if root is not None:
        path = path[root.end() :]
        if root[1] not in _WRAPPED:
            path = f"{root[1]}.{path}"
    return _KEY.sub(r".\1", path).strip(".")
