"""Drops loops whose results nobody sees."""

from dataclasses import replace

from torch_spyre._inductor.bundle import Bundle


def eliminate_dead_code(bundle: Bundle) -> Bundle:
    needed = set(bundle.results)
    kept = []
    for op in reversed(bundle.ops):
        if op.target not in needed and op.name not in needed:
            continue
        kept.append(op)
        needed.update(load.buffer for load in op.loads)
        needed.update(index.buffer for index in op.indices)
    return replace(bundle, ops=tuple(reversed(kept)))
