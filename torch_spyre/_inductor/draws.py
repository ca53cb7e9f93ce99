"""Passes over the draws of graphs: they are not repeated, and merged into few."""

from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from torch_spyre._inductor.fx_passes import source_hash
from torch_spyre.ops.random_values import DRAW, WORDS_PER_DRAW

_SLICE = torch.ops.aten.slice.Tensor


class SaveDraws(CustomGraphPass):
    """Saves the words of draws for the backward graph, also inside of checkpoints.

    A draw that is repeated has other values. The values are computed again from the saved words.
    """

    def __call__(self, graph: Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=DRAW):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE

    def uuid(self) -> Any:
        return source_hash()


def merge_draws(module: GraphModule) -> None:
    """Replace the draws between two other random ops by one, before the first op after the former.

    The order of draws from a generator, and so their values, remains the same. Kernels that would
    be before and after a draw are one bundle.
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
    node: Node = next(node for node in graph.nodes if node.op != "placeholder")
    return node


def _is_random(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags
