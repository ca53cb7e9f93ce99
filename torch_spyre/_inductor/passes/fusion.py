"""Groups ops into programs: chains whose intermediates never leave the core.

An op joins the group before it if it reads what the group made at the very points where it was
made, and if the tiles of all still fit. So does one that only reads an input that the group reads,
point for point. Its symbols are renamed to those of the group.

An op may replace what the group has read, as ops in place do, if every point is replaced by the
core that has read it, and by nobody else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import Interner, LoopOp, Reduction
from torch_spyre._inductor.loop_rewriting import with_symbols
from torch_spyre._inductor.multi_loop.registry import multi_loop_op


@dataclass
class _Group:
    ops: list[LoopOp] = field(default_factory=list)
    sizes: dict[Symbol, int] = field(default_factory=dict)
    # Buffers made here, and the index they were written at.
    made: dict[str, sympy.Expr] = field(default_factory=dict)
    reads: dict[str, list[sympy.Expr]] = field(default_factory=dict)
    # Inputs that were read here before they were written: they are no longer what was loaded.
    replaced: set[str] = field(default_factory=set)
    # That have work; 0 while nobody has asked.
    cores: int = 0

    def add(self, op: LoopOp) -> None:
        self.ops.append(op)
        for symbol, size in op.sizes.items():
            self.sizes.setdefault(symbol, size)
        if not op.partial:
            self.made[op.target] = op.write
        for load in op.loads:
            self.reads.setdefault(load.buffer, []).append(load.index)
        for index in op.indices:
            self.reads.setdefault(index.buffer, []).append(index.index)
        if op.target in self.reads:
            self.replaced.add(op.target)

    @property
    def is_pointwise(self) -> bool:
        return not any(isinstance(op.value, Reduction) or op.indices for op in self.ops)


def fuse(bundle: Bundle, cores_for: Callable[[Bundle, Sequence[LoopOp]], int]) -> Bundle:
    """`cores_for` says how many cores ops would use as one program; 0 if they cannot be one."""
    groups: list[_Group] = []
    interner = Interner()
    for op in bundle.ops:
        for group in _reachable(groups, op):
            joined = _joined(group, op, interner, bundle.partially_aliased)
            if joined is None:
                continue
            cores = cores_for(bundle, [*group.ops, joined])
            if cores and not _idles(group, cores, bundle, cores_for):
                group.add(joined)
                group.cores = cores
                break
        else:
            groups.append(_Group())
            groups[-1].add(with_symbols(op, {}, interner))
    return replace(bundle, groups=tuple(tuple(group.ops) for group in groups))


def _idles(
    group: _Group,
    cores: int,
    bundle: Bundle,
    cores_for: Callable[[Bundle, Sequence[LoopOp]], int],
) -> bool:
    """Would a product lose cores to what joins it? Its work is worth more than a trip to memory."""
    if not group.ops[0].is_matmul:
        return False
    if not group.cores:
        group.cores = cores_for(bundle, group.ops)
    return cores < group.cores


def _reachable(groups: Sequence[_Group], op: LoopOp) -> Iterator[_Group]:
    """Groups that the op could be moved back to, the last first: past those it has no part in."""
    touched = {op.target, *(load.buffer for load in op.loads)}
    touched |= {index.buffer for index in op.indices}
    for group in reversed(groups):
        yield group
        written = {each.target for each in group.ops}
        if written & touched or op.target in group.reads:
            return


def _joined(
    group: _Group, op: LoopOp, interner: Interner, partially_aliased: frozenset[str]
) -> LoopOp | None:
    """The op in the group's symbols; None if it must stand apart."""
    if op.partial or any(each.partial for each in group.ops):
        return None
    if op.is_matmul or op.target in group.made:
        return None
    if op.is_multi_loop or group.ops[0].is_multi_loop:
        return op if _can_merge(group, op) and op.target not in group.reads else None
    if any(load.indirect or load.buffer in group.replaced for load in op.loads):
        return None
    mapping: dict[Symbol, Symbol] = {}
    shared = [load for load in op.loads if load.buffer in group.made]
    for load in shared:
        found = _matched(load.index, op.sizes, group.made[load.buffer], group.sizes)
        if found is None or not _merge(mapping, found):
            return None
    if not shared and not _reads_alike(group, op, mapping):
        return None
    if not _complete(mapping, group, op):
        return None
    joined = with_symbols(op, mapping, interner)
    if op.target in group.reads and (
        op.target in partially_aliased or not _replaces(group, joined)
    ):
        return None
    return joined


def _reads_alike(group: _Group, op: LoopOp, mapping: dict[Symbol, Symbol]) -> bool:
    """Do both go over the same points, and read one input at each? Then `mapping` is filled."""
    if isinstance(op.value, Reduction) or op.scattered or not group.is_pointwise:
        return False
    sizes = {symbol for symbol, size in op.sizes.items() if size > 1}
    for load in op.loads:
        if not sizes or not sizes <= load.index.free_symbols:
            continue
        for index in group.reads.get(load.buffer, ()):
            found = _matched(load.index, op.sizes, index, group.sizes)
            if found is not None and len(found) == _extent(group.sizes) and _merge(mapping, found):
                return True
    return False


def _extent(sizes: Mapping[Symbol, int]) -> int:
    return sum(size > 1 for size in sizes.values())


def _replaces(group: _Group, op: LoopOp) -> bool:
    """Does each point of what the op writes go where the group has read it, at the same point?"""
    if isinstance(op.value, Reduction) or not group.is_pointwise:
        return False
    symbols = {symbol for symbol, size in (group.sizes | dict(op.sizes)).items() if size > 1}
    own = [load.index for load in op.loads if load.buffer == op.target]
    return symbols <= sympy.sympify(op.write).free_symbols and all(
        index == op.write for index in (*group.reads[op.target], *own)
    )


def _can_merge(group: _Group, op: LoopOp) -> bool:
    """Return whether the kernel of a multi-loop op computes `op` as well, in the same symbols."""
    value = group.ops[0].value
    if not op.is_multi_loop or not group.ops[0].is_multi_loop:
        return False
    assert isinstance(value, Reduction)
    return multi_loop_op(value.op).can_merge(group.ops, op)


def _matched(
    read: sympy.Expr,
    read_sizes: Mapping[Symbol, int],
    written: sympy.Expr,
    written_sizes: Mapping[Symbol, int],
) -> dict[Symbol, Symbol] | None:
    """Renames that make two indices the same one."""
    ours, theirs = _terms(read), _terms(written)
    if ours is None or theirs is None or ours.keys() != theirs.keys():
        return None
    renames: dict[Symbol, Symbol] = {}
    for factor, symbol in ours.items():
        if factor == 0:
            if symbol != theirs[0]:
                return None
            continue
        other = theirs[factor]
        # What was looked up is no loop, and has no size.
        if other not in written_sizes or read_sizes[symbol] != written_sizes[other]:
            return None
        renames[symbol] = other
    return renames


def _terms(index: sympy.Expr) -> dict[int, object] | None:
    """Symbols by their factor; the constant has factor 0."""
    found: dict[int, object] = {0: 0}
    for term, factor in sympy.sympify(index).as_coefficients_dict().items():
        if term == 1:
            found[0] = int(factor)
        elif term.is_Symbol and factor.is_Integer and int(factor) not in found:
            found[int(factor)] = term
        else:
            return None
    return found


def _merge(mapping: dict[Symbol, Symbol], more: Mapping[Symbol, Symbol]) -> bool:
    for symbol, other in more.items():
        if mapping.setdefault(symbol, other) != other:
            return False
    return len(set(mapping.values())) == len(mapping)


def _complete(mapping: dict[Symbol, Symbol], group: _Group, op: LoopOp) -> bool:
    """Symbols that no shared buffer names: those under which a common input is read alike."""
    for load in op.loads:
        for index in group.reads.get(load.buffer, ()):
            found = _matched(load.index, op.sizes, index, group.sizes)
            if found is None:
                continue
            trial = dict(mapping)
            if _merge(trial, found):
                mapping.update(trial)
    for symbol, size in op.sizes.items():
        if symbol in mapping:
            continue
        free = [
            other
            for other, extent in group.sizes.items()
            if extent == size and other not in mapping.values()
        ]
        if not free:
            return False
        mapping[symbol] = free[-1]
    return True
