"""The layouts that an op could write, and what each asks of the tensors it reads.

Candidates are listed in order of preference: of two that cost the same, the earlier is taken.
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
    StickKind,
    classify,
    default_layout,
    gather_copy,
    layout_with_stick,
    matching_dim,
    meets,
    ordered_layout,
    varies_within_sticks,
)
from torch_spyre._inductor.layouts.terms import Linear, names

SPARSE = -1

# What an op requires of each of its reads.
Choice = tuple[Requirement, ...]


@dataclass(frozen=True)
class Candidate:
    """A layout for the written buffer. Any one of `choices` makes the op computable."""

    layout: SpyreTensorLayout
    choices: Sequence[Choice]
    # Set if the op cannot write there directly: it writes this buffer, which is then copied.
    scatter: Copy | None = None


# Buffer name -> the layouts it may have.
Known = Mapping[str, Sequence[SpyreTensorLayout]]


def candidates(op: LayoutOp, known: Known) -> list[Candidate]:
    target = op.write.buffer
    if target.name in known:
        return [_into(op, layout) for layout in known[target.name]]
    found = list(_RULES[op.kind](op, known))
    if found:
        return found
    size, stride, dtype = target.size, target.stride, target.dtype
    return [_into(op, default_layout(size, stride, dtype))]


# --- Rules ----------------------------------------------------------------------------------------


def _pointwise(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Sticks of the inputs first, then any other dim of the output."""
    twins, sticks, is_sparse = _input_sticks(op, known)
    # One element per stick wastes memory: for inputs that have it, or if nothing else goes.
    preferred = [*twins, *sticks, None] if is_sparse else [*twins, *sticks]
    for stick in _unique([*preferred, *_other_sticks(op), None]):
        layout = twins[stick] if stick in twins else _layout_for(op, stick)
        if layout is not None:
            yield Candidate(layout, [_alike(op, stick)])


def _reduction(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """The input's stick if it survives, else one result per stick; then other dims."""
    _, sticks, is_sparse = _input_sticks(op, known)
    surviving = [stick for stick in sticks if stick not in op.reduced]
    order: list[Requirement] = list(surviving)
    if is_sparse or len(surviving) < len(sticks) or not surviving:
        order.append(None)
    for stick in _unique([*order, *_other_sticks(op), None]):
        layout = _layout_for(op, stick)
        if layout is not None:
            yield Candidate(layout, _choices(op, stick))


def _topk(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Like a reduction whose stick may not be the reduced dim."""
    _, sticks, _ = _input_sticks(op, known)
    read = names(op.read_indices[0])
    surviving = [stick for stick in sticks if stick not in op.reduced]
    others = [stick for stick in _other_sticks(op) if stick in read]
    for stick in _unique([*surviving, *others, None]):
        layout = _layout_for(op, stick)
        if layout is not None:
            yield Candidate(layout, [_alike(op, stick)])


def _exx2(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    target = op.write.buffer
    layout = layout_with_stick(target.size, target.stride, target.dtype, SPARSE)
    yield Candidate(layout, _choices(op, None))


def _matmul(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """The first operand's sticks along K, the second's and the result's along N."""
    left, right = (names(index) for index in op.read_indices[:2])
    written = names(op.write_index)
    # N, not M, tells the operands apart: a single row has no variable.
    inner = [name for name in op.loops if name in left and name not in written]
    outer = [name for name in op.loops if name in right & written - left]
    by_stick: dict[Requirement, list[Choice]] = {}
    for k, n in product(_last_first(inner), _last_first(outer)):
        by_stick.setdefault(n, []).append((k, n, *_alike(op, n)[2:]))
    for n, choices in by_stick.items():
        layout = _layout_for(op, n, in_place=True)
        if layout is not None:
            yield Candidate(layout, choices)


def _attention(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Sticks along channels: of query and key, of value and result. A bias: along keys."""
    channel = _written_loops(op)[-1]
    keys, inner = op.reduced
    yield _attending(op, channel, (inner, inner, channel, keys))


def _logsumexp(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """The same without value; one result per stick."""
    keys, inner = op.reduced
    yield _attending(op, None, (inner, inner, keys))


def _attending(op: LayoutOp, written: Requirement, sticks: Sequence[str]) -> Candidate:
    layout = _layout_for(op, written, in_place=written is not None)
    assert layout is not None, "results of attention are row-major"
    reads = enumerate(sticks[: len(op.reads)])
    return Candidate(layout, [tuple(_requirement(op, *each) for each in reads)])


def _fill(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    """Any stick is right, so that no consumer has to pay."""
    for name in reversed(_written_loops(op)):
        layout = _layout_for(op, name, in_place=True)
        if layout is not None:
            yield Candidate(layout, [_free(op)])
    yield from _row_major(op, known)


def _row_major(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    target = op.write.buffer
    yield Candidate(default_layout(target.size, target.stride, target.dtype), [_free(op)])


def _in_place(op: LayoutOp, known: Known) -> Iterator[Candidate]:
    raise ValueError(f"{op.name} changes {op.write.buffer.name}, which nothing wrote before")


_RULES: Mapping[str, Callable[[LayoutOp, Known], Iterator[Candidate]]] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    "matmul": _matmul,
    "attention": _attention,
    "attentionlogsumexp": _logsumexp,
    "exx2": _exx2,
    "topk": _topk,
    "clone": _row_major,
    "fill": _fill,
    "fallback": _row_major,
    "mutation": _in_place,
}

# Copies read and write through any coordinates; fallbacks do not run on the card.
_UNCONSTRAINED = {"clone", "fill", "fallback"}


# --- Writing to a given layout --------------------------------------------------------------------


def _into(op: LayoutOp, layout: SpyreTensorLayout) -> Candidate:
    """Writes a buffer whose layout is settled, through a copy if the op cannot do it itself."""
    if op.kind in _UNCONSTRAINED:
        return Candidate(layout, [_free(op)])
    coordinates = layout_coordinates(layout, op.write_index)
    stick = classify(coordinates[-1], sizes_and_strides(layout)[0][-1])
    indirect = op.indirect_loops(op.write, op.write_index)
    if stick.kind in (StickKind.NONE, StickKind.OFFSET_FREE):
        choices = _choices_for_written(op, stick.variable)
        fits = meets(coordinates, layout.device_size[-1], stick.variable, indirect)
        if fits and choices:
            return Candidate(layout, choices)
    # Of a matmul, N alone will do; of all other ops, any loop.
    name, choices = next(
        (each, choices)
        for each in (*reversed(_written_loops(op)), None)
        if (choices := _choices_for_written(op, each))
    )
    reason = "the op cannot write to places that are not aligned with the sticks"
    dtype = op.write.buffer.dtype
    scatter = gather_copy(dtype, op.write_index, name, indirect, op.loops, reason)
    return Candidate(layout, choices, scatter)


def _choices_for_written(op: LayoutOp, stick: Requirement) -> Sequence[Choice]:
    """What the op requires of its reads if it writes along `stick`; nothing if it cannot."""
    if op.kind != "matmul":
        return _choices(op, stick)
    left, right = (names(index) for index in op.read_indices[:2])
    if (stick is None) != (not right & names(op.write_index) - left) or stick in left:
        return []
    inner = _last_first([name for name in op.reduced if name in left])
    return [(k, stick, *_alike(op, stick)[2:]) for k in inner]


# --- Pieces ---------------------------------------------------------------------------------------


def _free(op: LayoutOp) -> Choice:
    return (ANY,) * len(op.reads)


def _alike(op: LayoutOp, stick: Requirement) -> Choice:
    """All tensors advance along the same stick, or stay while it runs."""
    return tuple(_requirement(op, position, stick) for position in range(len(op.reads)))


def _requirement(op: LayoutOp, position: int, stick: Requirement) -> Requirement:
    access, index = op.reads[position], op.read_indices[position]
    if access.is_index:
        return ANY
    if stick is None:
        return None
    per_stick = op.write.buffer.per_stick
    varies = varies_within_sticks([index], stick, per_stick)
    return stick if varies or stick in op.indirect_loops(access, index) else None


def _choices(op: LayoutOp, stick: Requirement) -> list[Choice]:
    """One result per stick comes from sticks along a reduced dim, or from single elements."""
    if stick is not None or op.kind == "topk":
        return [_alike(op, stick)]
    along = [_alike(op, name) for name in reversed(op.reduced)]
    return along if op.kind == "exx2" and along else [*along, _alike(op, None)]


def _input_sticks(
    op: LayoutOp, known: Known
) -> tuple[dict[Requirement, SpyreTensorLayout], list[Requirement], bool]:
    """Layouts of inputs with the output's frame by stick, all inputs' sticks, any without."""
    target = op.write.buffer
    twins: dict[Requirement, SpyreTensorLayout] = {}
    found: set[Requirement] = set()
    is_sparse = False
    for access, index in zip(op.reads, op.read_indices, strict=True):
        if access.is_index or not index.terms:
            continue
        source = access.buffer
        is_twin = (index, source.size, source.stride) == (
            op.write_index, target.size, target.stride
        )  # fmt: skip
        indirect = op.indirect_loops(access, index)
        for layout in known[source.name]:
            coordinates = layout_coordinates(layout, index)
            per_stick = sizes_and_strides(layout)[0][-1]
            stick = classify(coordinates[-1], per_stick)
            if not meets(coordinates, per_stick, stick.variable, indirect):
                continue
            if stick.variable is not None and stick.variable not in op.loops:
                continue
            if is_twin and per_stick == target.per_stick and _is_filled(layout, coordinates):
                twins.setdefault(stick.variable, _retyped(layout, op))
            if stick.variable is not None:
                found.add(stick.variable)
            elif index == op.write_index:
                is_sparse = True
    return twins, [name for name in op.loops if name in found], is_sparse


def _is_filled(layout: SpyreTensorLayout, coordinates: Sequence[Linear]) -> bool:
    """Whether the layout is for as many elements: that of a slice's base is for more."""
    outer = zip(coordinates[:-1], sizes_and_strides(layout)[0][:-1], strict=True)
    return all(coordinate.bounds[1] + 1 >= extent for coordinate, extent in outer)


def _retyped(layout: SpyreTensorLayout, op: LayoutOp) -> SpyreTensorLayout:
    target = op.write.buffer
    like = default_layout(target.size, target.stride, target.dtype)
    if like.device_dtype == layout.device_dtype:
        return layout
    device_size, stride_map = sizes_and_strides(layout)
    return SpyreTensorLayout(device_size, stride_map, like.device_dtype)


def _written_loops(op: LayoutOp) -> list[str]:
    return [name for name in op.loops if name not in op.reduced]


def _other_sticks(op: LayoutOp) -> list[str]:
    """Every dim of the output: those of whole sticks first, ragged ones need padding."""
    per_stick = op.write.buffer.per_stick
    return sorted(_written_loops(op), key=lambda name: op.loops[name] % per_stick != 0)


def _layout_for(
    op: LayoutOp, stick: Requirement, in_place: bool = False
) -> SpyreTensorLayout | None:
    """The output with its stick along a loop; None if no layout of the output has that stick."""
    target = op.write.buffer
    host, rest = divide_on_host(target.size, target.stride, op.write_index)
    if not rest.is_zero:
        return None
    dim = SPARSE if stick is None else matching_dim(host, stick)
    if dim is None:
        return None
    if in_place and stick is None:
        layout = default_layout(target.size, target.stride, target.dtype)
        if _writes(op, layout, stick):
            return layout
    others = [each for each in range(len(target.size)) if each != dim]
    if not in_place:
        # Dims of one element last: what runs lies next to the stick.
        others.sort(key=lambda each: not host[each].terms)
    layout = ordered_layout(target.size, target.stride, target.dtype, (*others, dim))
    return layout if _writes(op, layout, stick) else None


def _writes(op: LayoutOp, layout: SpyreTensorLayout, stick: Requirement) -> bool:
    coordinates: tuple[Linear, ...] = layout_coordinates(layout, op.write_index)
    indirect = op.indirect_loops(op.write, op.write_index)
    return meets(coordinates, sizes_and_strides(layout)[0][-1], stick, indirect)


def _last_first(loops: Sequence[str]) -> list[Requirement]:
    return [*reversed(loops)] or [None]


def _unique(sticks: Iterable[Requirement]) -> list[Requirement]:
    return list(dict.fromkeys(sticks))
