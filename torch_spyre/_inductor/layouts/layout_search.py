"""Chooses one layout for each buffer of a graph, so that copies move as few elements as possible.

This is a beam search over the ops in order. A state holds the decisions so far; states that agree
on the layouts and copies that later ops can still read are equivalent. The greedy alternative
retains a single state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.graph import (
    WRITE,
    Access,
    Buffer,
    LayoutOp,
    LayoutPlan,
    Restickify,
)
from torch_spyre._inductor.layouts.propagation import Candidate, Choice, candidates
from torch_spyre._inductor.layouts.sticks import ANY, Copy, Requirement, copy_needed
from torch_spyre._inductor.layouts.terms import expression, names

BEAM_WIDTH = 64

Layouts = Mapping[str, SpyreTensorLayout]


def plan_layouts(
    inputs: Sequence[Buffer],
    ops: Sequence[LayoutOp],
    *,
    global_search: bool = True,
    beam_width: int = BEAM_WIDTH,
) -> LayoutPlan:
    """Return the layout of every buffer that the ops write, from those of the inputs."""
    known: dict[str, list[SpyreTensorLayout]] = {}
    for buffer in inputs:
        if buffer.layout is None:
            raise ValueError(f"graph input {buffer.name} has no device layout")
        known[buffer.name] = [buffer.layout]
    states = [_State(0, {name: layouts[0] for name, layouts in known.items()}, frozenset())]
    steps = _steps(ops, known)
    width = beam_width if global_search else 1
    for step in steps:
        states = _advance(step, states, width)
    return _plan(inputs, states[0])


# --- Preparation ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Edge:
    """The copy that a read needs for one layout of its buffer and one requirement."""

    copy: Copy | None
    # Equal for reads that one copy serves.
    key: tuple[object, ...]

    @cached_property
    def cost(self) -> int:
        return 0 if self.copy is None else self.copy.cost


class _Step:
    """An op at its position in the graph, with its candidates and the costs of its reads."""

    def __init__(
        self,
        op: LayoutOp,
        op_candidates: Sequence[Candidate],
        versions: Mapping[str, int],
        needed_later: frozenset[str],
    ) -> None:
        self.op = op
        self.candidates = op_candidates
        self.needed_later = needed_later
        # Reads after a mutation of the source cannot use a copy from before the mutation.
        self._versions = [versions.get(read.buffer.name, 0) for read in op.reads]
        self._edges: dict[tuple[int, SpyreTensorLayout, Requirement], _Edge] = {}
        self._loops = tuple(op.loops.items())

    def edge(self, position: int, layout: SpyreTensorLayout, required: Requirement) -> _Edge:
        key = (position, layout, required)
        if key not in self._edges:
            self._edges[key] = self._make_edge(position, layout, required)
        return self._edges[key]

    def _make_edge(self, position: int, layout: SpyreTensorLayout, required: Requirement) -> _Edge:
        access, index = self.op.reads[position], self.op.read_indices[position]
        if required == ANY:
            return _Edge(None, ())
        source = access.buffer
        indirect = self.op.indirect_loops(access, index)
        copy = copy_needed(
            source.size, source.stride, source.dtype, layout, index, required, indirect, self._loops
        )
        if copy is None:
            return _Edge(None, ())
        copy_key: tuple[object, ...] = (source.name, self._versions[position], copy.layout)
        if copy.kind == "gather":
            # Index values belong to one read, so a gather through them serves no other read.
            reader = (self.op.name, position) if self.op.is_indirect(index) else None
            copy_key += (index, copy.index, reader)
        return _Edge(copy, copy_key)

    def cheapest(self, candidate: Candidate, state: "_State") -> tuple[int, Sequence[_Edge]]:
        """Return the cost and the edges of the candidate's cheapest choice."""
        return min(
            (self._cost(choice, state) for choice in candidate.choices),
            key=lambda cost_and_edges: cost_and_edges[0],
        )

    def _cost(self, choice: Choice, state: "_State") -> tuple[int, Sequence[_Edge]]:
        edges = [
            self.edge(position, state.layouts[access.buffer.name], required)
            for position, (access, required) in enumerate(zip(self.op.reads, choice, strict=True))
        ]
        new_copies = {edge.key: edge.cost for edge in edges if edge.key not in state.copies}
        return sum(new_copies.values()), edges


def _steps(ops: Sequence[LayoutOp], known: dict[str, list[SpyreTensorLayout]]) -> list[_Step]:
    later: set[str] = set()
    needed_later: list[frozenset[str]] = []
    for op in reversed(ops):
        needed_later.append(frozenset(later))
        later.update(read.buffer.name for read in op.reads)
        later.add(op.write.buffer.name)
    needed_later.reverse()
    versions: dict[str, int] = {}
    steps = []
    for op, needed in zip(ops, needed_later, strict=True):
        _check_reads(op, known)
        op_candidates = candidates(op, known)
        steps.append(_Step(op, op_candidates, dict(versions), needed))
        target = op.write.buffer.name
        if target in known:
            versions[target] = versions.get(target, 0) + 1
        else:
            known[target] = list(dict.fromkeys(candidate.layout for candidate in op_candidates))
    return steps


def _check_reads(op: LayoutOp, known: Mapping[str, object]) -> None:
    missing = [read.buffer.name for read in op.reads if read.buffer.name not in known]
    if missing:
        raise ValueError(
            f"{op.name} reads {', '.join(missing)}, neither an input nor written by an earlier op"
        )


# --- The search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    step: _Step
    candidate: Candidate
    edges: Sequence[_Edge]
    before: "_Decision | None"


@dataclass(frozen=True)
class _State:
    cost: int
    # Layouts of the buffers, and keys of the copies, that later ops use.
    layouts: Layouts
    copies: frozenset[tuple[object, ...]]
    last: _Decision | None = None

    @property
    def equivalence_key(self) -> tuple[object, ...]:
        """Everything that later decisions depend on: equal for equivalent states."""
        return frozenset(self.layouts.items()), self.copies


def _advance(step: _Step, states: Sequence[_State], width: int) -> list[_State]:
    """Return the cheapest states after one more op, at most `width`."""
    options = []
    target = step.op.write.buffer.name
    for state in states:
        fixed_layout = state.layouts.get(target)
        for candidate in step.candidates:
            if fixed_layout is not None and candidate.layout != fixed_layout:
                continue
            cost, edges = step.cheapest(candidate, state)
            if candidate.scatter is not None:
                cost += candidate.scatter.cost
            options.append((state.cost + cost, state, candidate, edges))
            if cost == 0 and target not in step.needed_later:
                # No later op reads the buffer, and no candidate is cheaper.
                break
    options.sort(key=lambda option: option[0])
    next_states: dict[tuple[object, ...], _State] = {}
    for cost, state, candidate, edges in options:
        next_state = _next_state(step, cost, state, candidate, edges)
        next_states.setdefault(next_state.equivalence_key, next_state)
        if len(next_states) == width:
            break
    return list(next_states.values())


def _next_state(
    step: _Step, cost: int, state: _State, candidate: Candidate, edges: Sequence[_Edge]
) -> _State:
    needed = step.needed_later
    layouts = {name: layout for name, layout in state.layouts.items() if name in needed}
    target = step.op.write.buffer.name
    if target in needed:
        layouts[target] = candidate.layout
    all_copies = state.copies.union(edge.key for edge in edges if edge.copy is not None)
    copies = frozenset(key for key in all_copies if key[0] in needed)
    return _State(cost, layouts, copies, _Decision(step, candidate, edges, state.last))


# --- The plan -------------------------------------------------------------------------------------


def _plan(inputs: Sequence[Buffer], best: _State) -> LayoutPlan:
    decisions: list[_Decision] = []
    last = best.last
    while last is not None:
        decisions.append(last)
        last = last.before
    layouts = {buffer.name: buffer.layout for buffer in inputs if buffer.layout is not None}
    copies: list[Restickify] = []
    labels: dict[tuple[object, ...], str] = {}
    for decision in reversed(decisions):
        op = decision.step.op
        layouts[op.write.buffer.name] = decision.candidate.layout
        for position, edge in enumerate(decision.edges):
            if edge.copy is not None:
                name = labels.setdefault(
                    edge.key, f"{op.reads[position].buffer.name}_{len(labels)}"
                )
                copies.append(_restickify(op, position, op.reads[position], edge.copy, name))
        scatter = decision.candidate.scatter
        if scatter is not None:
            name = labels.setdefault((op.name,), f"{op.write.buffer.name}_{len(labels)}")
            copies.append(_restickify(op, WRITE, op.write, scatter, name))
    return LayoutPlan(layouts, copies, best.cost)


def _restickify(op: LayoutOp, position: int, access: Access, copy: Copy, name: str) -> Restickify:
    return Restickify(
        name=name,
        op_name=op.name,
        read_position=position,
        source=access.buffer.name,
        kind="scatter" if position == WRITE else copy.kind,
        size=copy.size,
        stride=copy.stride,
        dtype=access.buffer.dtype,
        target_layout=copy.layout,
        index=access.index if copy.kind == "restickify" else expression(copy.index),
        ranges={symbol: n for symbol, n in op.ranges.items() if symbol.name in names(copy.index)},
        reason=copy.reason,
        cost=copy.cost,
    )
