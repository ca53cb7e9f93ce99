"""Drops loops whose results are never read."""

from dataclasses import replace

from torch_spyre._inductor.bundle import Bundle


def eliminate_dead_code(bundle: Bundle) -> Bundle:
    """Drop the ops whose targets are neither results nor read by a remaining op."""
    live = set(bundle.results)
    retained = []
    for op in reversed(bundle.ops):
        if op.target not in live and op.name not in live:
            continue
        retained.append(op)
        live.update(load.buffer for load in op.loads)
        live.update(index.buffer for index in op.indices)
    return replace(bundle, ops=tuple(reversed(retained)))
