"""Lists the candidate layouts of an op's result, with the requirements of each on the reads.

Candidates are in order of preference: of two with the same cost, the search takes the earlier.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.coordinates import (
    divide_on_host,
    layout_coordinates,
    sizes_and_strides,
)
from torch_spyre._inductor.layouts.graph import LayoutOp
from torch_spyre._inductor.layouts.sticks import (
    ANY,
    Copy,
    Requirement,
    StickCandidate,
    StickKind,
    classify,
    default_layout,
    gather_copy,
    matching_dim,
    ordered_layout,
    satisfies,
    varies_within_sticks,
)
from torch_spyre._inductor.layouts.terms import Linear, names
from torch_spyre._inductor.multi_loop.registry import multi_loop_op

SPARSE = -1

# The requirement on each read of an op.
Choice = tuple[Requirement, ...]


@dataclass(frozen=True)
class Candidate:
    """A layout for the written buffer; the reads must satisfy any one of `choices`."""

    layout: SpyreTensorLayout
    choices: Sequence[Choice]
    # Set if the op cannot write this layout: it writes the source of this copy instead.
    scatter: Copy | None = None


# Buffer name -> the layouts that it can have.
Known = Mapping[str, Sequence[SpyreTensorLayout]]


def candidates(op: LayoutOp, known: Known) -> list[Candidate]:
    """Return the candidates of an op, best first; there is at least one."""
    target = op.write.buffer
    if target.name in known:
        return [_into_layout(op, layout) for layout in known[target.name]]
    rule = _RULES.get(op.kind, _multi_loop)
    op_candidates = list(rule(op, known))
    if op_candidates:
        return op_candidates
    size, stride, dtype = target.size, target.stride, target.dtype
    return [_into_layout(op, default_layout(size, stride, dtype))]


# --- Rules ----------------------------------------------------------------------------------------


def _pointwise(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Yield the sticks of the inputs first, then any other dim of the output."""
    same_frame, sticks, is_sparse = _input_sticks(op, known)
    # One element per stick wastes memory: preferred only if an input has such a layout.
    preferred = [*same_frame, *sticks, None] if is_sparse else [*same_frame, *sticks]
    for stick in _unique([*preferred, *_output_sticks(op), None]):
        layout = same_frame[stick] if stick in same_frame else _layout_for(op, stick)
        if layout is not None:
            yield Candidate(layout, [_along_stick(op, stick)])


def _reduction(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Yield the input's stick unless it is reduced, else one result per stick; then other dims."""
    _, sticks, is_sparse = _input_sticks(op, known)
    retained = [stick for stick in sticks if stick not in op.reduced]
    order: list[Requirement] = list(retained)
    if is_sparse or len(retained) < len(sticks) or not retained:
        order.append(None)
    for stick in _unique([*order, *_output_sticks(op), None]):
        layout = _layout_for(op, stick)
        if layout is not None:
            yield Candidate(layout, _choices(op, stick))


def _matmul(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Require the first operand's sticks along K, the second's and the result's along N."""
    left, right = (names(index) for index in op.read_indices[:2])
    written = names(op.write_index)
    # N, not M, distinguishes the operands: a single row has no variable.
    inner = [name for name in op.loops if name in left and name not in written]
    outer = [name for name in op.loops if name in right & written - left]
    by_stick: dict[Requirement, list[Choice]] = {}
    for k, n in product(_innermost_first(inner), _innermost_first(outer)):
        by_stick.setdefault(n, []).append((k, n, *_along_stick(op, n)[2:]))
    for n, choices in by_stick.items():
        layout = _layout_for(op, n, keep_order=True)
        if layout is not None:
            yield Candidate(layout, choices)


def _multi_loop(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Yield the candidates that a multi-loop op proposes."""
    for sticks in multi_loop_op(op.kind).stick_candidates(op):
        in_order = sticks.written is not None
        layout = _layout_for(op, sticks.written, keep_order=in_order)
        if layout is not None:
            yield Candidate(layout, [_multi_loop_choice(op, sticks)])


def _multi_loop_choice(op: LayoutOp, sticks: StickCandidate) -> Choice:
    return tuple(_requirement(op, *read) for read in enumerate(sticks.reads))


def _fill(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Yield every stick, so that no consumer needs a copy."""
    for name in reversed(_written_loops(op)):
        layout = _layout_for(op, name, keep_order=True)
        if layout is not None:
            yield Candidate(layout, [_unconstrained(op)])
    yield from _row_major(op, known)


def _row_major(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    target = op.write.buffer
    yield Candidate(default_layout(target.size, target.stride, target.dtype), [_unconstrained(op)])


def _mutation(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    raise ValueError(f"{op.name} mutates {op.write.buffer.name}, which has no layout yet")


_RULES: Mapping[str, Callable[[LayoutOp, Known], Iterator[Candidate]]] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    "matmul": _matmul,
    "clone": _row_major,
    "fill": _fill,
    "mutation": _mutation,
}

# Copies and fills read and write any coordinates.
_UNCONSTRAINED = {"clone", "fill"}


# --- Writing a buffer of known layout -------------------------------------------------------------


def _into_layout(op: LayoutOp, layout: SpyreTensorLayout) -> Candidate:
    """Return the candidate with this layout, through a copy if the op cannot write it."""
    if op.kind in _UNCONSTRAINED:
        return Candidate(layout, [_unconstrained(op)])
    coordinates = layout_coordinates(layout, op.write_index)
    stick = classify(coordinates[-1], sizes_and_strides(layout)[0][-1])
    indirect = op.indirect_loops(op.write, op.write_index)
    if stick.kind in (StickKind.NONE, StickKind.OFFSET_FREE):
        choices = _choices_for_written(op, stick.variable)
        fits = satisfies(coordinates, layout.device_size[-1], stick.variable, indirect)
        if fits and choices:
            return Candidate(layout, choices)
    # A matmul can only write along N, most other ops along any loop.
    name, choices = next(
        (stick, choices)
        for stick in (*reversed(_written_loops(op)), None)
        if (choices := _choices_for_written(op, stick))
    )
    reason = "the op cannot write elements that are not aligned with the sticks"
    dtype = op.write.buffer.dtype
    scatter = gather_copy(dtype, op.write_index, name, indirect, op.loops, reason)
    return Candidate(layout, choices, scatter)


def _choices_for_written(op: LayoutOp, stick: Requirement) -> Sequence[Choice]:
    """Return the choices of an op that writes along `stick`; none if it cannot."""
    if op.kind not in _RULES:
        proposals = multi_loop_op(op.kind).stick_candidates(op)
        return [
            _multi_loop_choice(op, proposal) for proposal in proposals if proposal.written == stick
        ]
    if op.kind != "matmul":
        return _choices(op, stick)
    left, right = (names(index) for index in op.read_indices[:2])
    if (stick is None) != (not right & names(op.write_index) - left) or stick in left:
        return []
    inner = _innermost_first([name for name in op.reduced if name in left])
    return [(k, stick, *_along_stick(op, stick)[2:]) for k in inner]


# --- Requirements and layouts ---------------------------------------------------------------------


def _unconstrained(op: LayoutOp) -> Choice:
    return (ANY,) * len(op.reads)


def _along_stick(op: LayoutOp, stick: Requirement) -> Choice:
    """Require that every read advances along the same stick, or is constant along it."""
    return tuple(_requirement(op, position, stick) for position in range(len(op.reads)))


def _requirement(op: LayoutOp, position: int, stick: Requirement) -> Requirement:
    """Return the requirement on one read of an op that runs along `stick`."""
    access, index = op.reads[position], op.read_indices[position]
    if access.is_index or stick == ANY:
        return ANY
    if stick is None:
        return None
    per_stick = op.write.buffer.per_stick
    varies = varies_within_sticks([index], stick, per_stick)
    return stick if varies or stick in op.indirect_loops(access, index) else None


def _choices(op: LayoutOp, stick: Requirement) -> list[Choice]:
    """Return the choices for a written stick.

    One result per stick comes from sticks along a reduced dim, or from single elements.
    """
    if stick is not None:
        return [_along_stick(op, stick)]
    return [*(_along_stick(op, name) for name in reversed(op.reduced)), _along_stick(op, None)]


def _input_sticks(
    op: LayoutOp, known: Known
) -> tuple[dict[Requirement, SpyreTensorLayout], list[Requirement], bool]:
    """Return layouts of reads with the output's frame by stick, all sticks, and any sparse read.

    A read has the output's frame if it has the same index, sizes and strides.
    """
    target = op.write.buffer
    same_frame: dict[Requirement, SpyreTensorLayout] = {}
    sticks: set[Requirement] = set()
    is_sparse = False
    for access, index in zip(op.reads, op.read_indices, strict=True):
        if access.is_index or not index.terms:
            continue
        source = access.buffer
        has_same_frame = (index, source.size, source.stride) == (
            op.write_index, target.size, target.stride
        )  # fmt: skip
        indirect = op.indirect_loops(access, index)
        for layout in known[source.name]:
            coordinates = layout_coordinates(layout, index)
            per_stick = sizes_and_strides(layout)[0][-1]
            stick = classify(coordinates[-1], per_stick)
            if not satisfies(coordinates, per_stick, stick.variable, indirect):
                continue
            if stick.variable is not None and stick.variable not in op.loops:
                continue
            is_reusable = has_same_frame and per_stick == target.per_stick
            if is_reusable and _is_filled(layout, coordinates):
                same_frame.setdefault(stick.variable, _with_written_dtype(layout, op))
            if stick.variable is not None:
                sticks.add(stick.variable)
            elif index == op.write_index:
                is_sparse = True
    return same_frame, [name for name in op.loops if name in sticks], is_sparse


def _is_filled(layout: SpyreTensorLayout, coordinates: Sequence[Linear]) -> bool:
    """Return whether the access covers the layout; a slice's base has more elements."""
    outer = zip(coordinates[:-1], sizes_and_strides(layout)[0][:-1], strict=True)
    return all(coordinate.bounds[1] + 1 >= extent for coordinate, extent in outer)


def _with_written_dtype(layout: SpyreTensorLayout, op: LayoutOp) -> SpyreTensorLayout:
    target = op.write.buffer
    device_dtype = default_layout(target.size, target.stride, target.dtype).device_dtype
    if device_dtype == layout.device_dtype:
        return layout
    device_size, stride_map = sizes_and_strides(layout)
    return SpyreTensorLayout(device_size, stride_map, device_dtype)


def _written_loops(op: LayoutOp) -> list[str]:
    return [name for name in op.loops if name not in op.reduced]


def _output_sticks(op: LayoutOp) -> list[str]:
    """Return the loops of the output, those of whole sticks first: the others need padding."""
    per_stick = op.write.buffer.per_stick
    return sorted(_written_loops(op), key=lambda name: op.loops[name] % per_stick != 0)


def _layout_for(
    op: LayoutOp, stick: Requirement, keep_order: bool = False
) -> SpyreTensorLayout | None:
    """Return the output's layout with sticks along a loop; None if there is none.

    Outer dims are in order with `keep_order`; otherwise dims of size 1 come last.
    """
    target = op.write.buffer
    host, remainder = divide_on_host(target.size, target.stride, op.write_index)
    if not remainder.is_zero:
        return None
    dim = SPARSE if stick is None else matching_dim(host, stick)
    if dim is None:
        return None
    if keep_order and stick is None:
        layout = default_layout(target.size, target.stride, target.dtype)
        if _can_write(op, layout, stick):
            return layout
    outer_dims = [outer for outer in range(len(target.size)) if outer != dim]
    if not keep_order:
        outer_dims.sort(key=lambda outer: not host[outer].terms)
    layout = ordered_layout(target.size, target.stride, target.dtype, (*outer_dims, dim))
    return layout if _can_write(op, layout, stick) else None


def _can_write(op: LayoutOp, layout: SpyreTensorLayout, stick: Requirement) -> bool:
    coordinates: tuple[Linear, ...] = layout_coordinates(layout, op.write_index)
    indirect = op.indirect_loops(op.write, op.write_index)
    return satisfies(coordinates, sizes_and_strides(layout)[0][-1], stick, indirect)


def _innermost_first(loops: Sequence[str]) -> list[Requirement]:
    return [*reversed(loops)] or [None]


def _unique(sticks: Iterable[Requirement]) -> list[Requirement]:
    return list(dict.fromkeys(sticks))
