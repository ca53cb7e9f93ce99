"""Merges the draws of a graph, so that the kernels around them stay in one bundle."""

import torch
from torch.fx import Graph, GraphModule, Node

from torch_spyre.ops.random_values import DRAW, WORDS_PER_DRAW

_SLICE = torch.ops.aten.slice.Tensor


def merge_draws(module: GraphModule) -> None:
    """Replace the draws between two other random ops by one, before the first op after the former.

    The order of draws from a generator, and so their values, remains the same.
    """
    graph = module.graph
    runs: list[list[Node]] = [[]]
    anchors = [_first_op(graph)]
    for node in graph.nodes:
        if node.target is DRAW:
            runs[-1].append(node)
        elif _is_random(node):
            runs.append([])
            anchors.append(node.next)
    for anchor, draws in zip(anchors, runs, strict=True):
        for device in {node.args[1] for node in draws}:
            _merge(graph, anchor, [node for node in draws if node.args[1] == device])
    for node in (draw for draws in runs for draw in draws):
        graph.erase_node(node)
    if any(runs):
        module.recompile()


def _merge(graph: Graph, anchor: Node, draws: list[Node]) -> None:
    first = draws[0].meta["val"]
    with graph.inserting_before(anchor):
        merged = graph.call_function(DRAW, (len(draws), draws[0].args[1], 0))
        merged.meta = dict(draws[0].meta)
        merged.meta["val"] = first.new_empty((WORDS_PER_DRAW * len(draws), 1))
        for position, node in enumerate(draws):
            begin = WORDS_PER_DRAW * position
            words = graph.call_function(_SLICE, (merged, 0, begin, begin + WORDS_PER_DRAW))
            words.meta = dict(node.meta)
            words.meta["val"] = merged.meta["val"][begin : begin + WORDS_PER_DRAW]
            node.replace_all_uses_with(words)


def _first_op(graph: Graph) -> Node:
    return next(node for node in graph.nodes if node.op != "placeholder")


def _is_random(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags
