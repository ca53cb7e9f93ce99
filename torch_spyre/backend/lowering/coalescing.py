"""Removes copies by letting source and destination be one buffer.

A loop's accumulator is the case that matters: `scf.yield` copies the new value to where the old one
is, and when the old one is no longer needed the new one can be computed right there.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from torch_spyre.backend.lowering.nodes import (
    CopyTensor,
    Elementwise,
    For,
    If,
    Node,
    Product,
)
from torch_spyre.backend.lowering.values import Buffer, TensorView


def coalesce(nodes: list[Node]) -> None:
    _region(nodes, None, nodes)


def _region(nodes: list[Node], loop: For | None, everything: list[Node]) -> None:
    for node in nodes:
        match node:
            case For():
                _region(node.body, node, everything)
            case If():
                _region(node.then, None, everything)
                _region(node.otherwise, None, everything)
    for copy in [node for node in nodes if isinstance(node, CopyTensor)]:
        if _is_whole_copy(copy) and _can_be_one(nodes, copy, loop, everything):
            nodes.remove(copy)
            _rename(everything, copy.source.buffer, copy.destination.buffer)


def _is_whole_copy(copy: CopyTensor) -> bool:
    source, destination = copy.source, copy.destination
    return (
        source.buffer is not destination.buffer
        and source.is_whole
        and destination.is_whole
        and source.type is destination.type
        and source.buffer.bytes == destination.buffer.bytes
    )


def _can_be_one(
    nodes: list[Node], copy: CopyTensor, loop: For | None, everything: list[Node]
) -> bool:
    position = nodes.index(copy)
    source, destination = copy.source.buffer, copy.destination.buffer
    # The source must live in this region alone, and end here.
    if any(source in _touched(node) for node in nodes[position + 1 :]):
        return False
    if _uses(everything, source) != sum(_uses([node], source) for node in nodes):
        return False
    writers = [place for place, node in enumerate(nodes[:position]) if source in _written(node)]
    if not writers:
        return False
    first = writers[0]
    carried = loop is not None and destination in loop.carried
    if carried:
        # Its old content must have been read when the first new element is written.
        return all(
            destination not in _touched(node) for node in nodes[first + 1 : position]
        ) and _may_overwrite(nodes[first], destination, source)
    # Otherwise nothing may touch the destination before.
    return all(destination not in _touched(node) for node in nodes[:position])


def _may_overwrite(node: Node, old: Buffer, new: Buffer) -> bool:
    """May this node write `new` over `old`, which it reads?"""
    match node:
        case CopyTensor() if node.source.buffer is old:
            return True
        case _ if old not in _touched(node):
            return True
        case Product():
            return (
                node.initial is not None
                and node.initial.buffer is old
                and _same_walk(node.initial, node.output)
                and old not in (node.a.buffer, node.b.buffer)
            )
        case Elementwise():
            return in_place(node, old, new)
    return False


def in_place(node: Elementwise, old: Buffer, new: Buffer) -> bool:
    """Does every read of `old` come from the very place that the same element of `new` goes to?"""
    outputs = [output.tensor for output in node.outputs if output.tensor.buffer is new]
    reads = [
        found for found in node.inputs if isinstance(found, TensorView) and found.buffer is old
    ]
    return (
        len(outputs) == 1
        and all(_same_walk(found, outputs[0]) for found in reads)
        and all(found.buffer is not old for found in node.lookups)
    )


def _same_walk(left: TensorView, right: TensorView) -> bool:
    return (
        left.strides == right.strides
        and left.offset == right.offset
        and left.offset_register == right.offset_register
        and left.type.bytes == right.type.bytes
    )


def _children(node: Node) -> list[list[Node]]:
    match node:
        case For():
            return [node.body]
        case If():
            return [node.then, node.otherwise]
    return []


def _touched(node: Node) -> set[Buffer]:
    found = {*node.reads(), *_written(node)}
    for region in _children(node):
        for child in region:
            found |= _touched(child)
    return found


def _written(node: Node) -> set[Buffer]:
    found = set(node.writes())
    if isinstance(node, For):
        found |= set(node.carried)
    if isinstance(node, If):
        found |= set(node.results)
    for region in _children(node):
        for child in region:
            found |= _written(child)
    return found


def _uses(nodes: list[Node], buffer: Buffer) -> int:
    return sum(1 for node in _all(nodes) if buffer in (*node.reads(), *node.writes()))


def _all(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for region in _children(node):
            yield from _all(region)


def _rename(nodes: list[Node], old: Buffer, new: Buffer) -> None:
    for node in _all(nodes):
        for field in fields(node):
            if field.name not in ("body", "then", "otherwise"):
                setattr(node, field.name, _renamed(getattr(node, field.name), old, new))


def _renamed(value: object, old: Buffer, new: Buffer) -> object:
    """The value with one buffer in the place of another, wherever it is inside."""
    match value:
        case Buffer():
            return new if value is old else value
        case TensorView():
            return replace(value, buffer=new) if value.buffer is old else value
        case list():
            return [_renamed(item, old, new) for item in value]
        case tuple():
            return tuple(_renamed(item, old, new) for item in value)
        case Elementwise():
            for field in fields(value):
                setattr(value, field.name, _renamed(getattr(value, field.name), old, new))
            return value
    if is_dataclass(value) and hasattr(value, "tensor"):
        return replace(value, tensor=_renamed(value.tensor, old, new))  # type: ignore[type-var]
    return value
