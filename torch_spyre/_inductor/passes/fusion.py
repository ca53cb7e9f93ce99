"""Fuses ops into programs whose intermediates never leave the core.

An op is added to an earlier group if it reads the group's results at the points where they are
computed, or reads an input of the group at the same points, and if the tiles of all ops still fit.
Its symbols are renamed to those of the group.

An op may overwrite an input of the group, as in-place ops do, if the core that reads an element is
the only one that overwrites it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import Interner, LoopOp, Reduction
from torch_spyre._inductor.loop_rewriting import with_symbols
from torch_spyre._inductor.multi_loop.registry import multi_loop_op
from torch_spyre.logging_config import get_logger

logger = get_logger("torch_spyre.inductor.passes")


@dataclass
class _Group:
    ops: list[LoopOp] = field(default_factory=list)
    sizes: dict[Symbol, int] = field(default_factory=dict)
    # Buffers that the group writes, and the index of the write.
    written: dict[str, sympy.Expr] = field(default_factory=dict)
    reads: dict[str, list[sympy.Expr]] = field(default_factory=dict)
    # Inputs that the group reads and then overwrites.
    overwritten: set[str] = field(default_factory=set)
    # The number of cores that the group uses; 0 if not computed yet.
    cores: int = 0

    def add(self, op: LoopOp) -> None:
        self.ops.append(op)
        for symbol, size in op.sizes.items():
            self.sizes.setdefault(symbol, size)
        if not op.is_partial:
            self.written[op.target] = op.write
        for load in op.loads:
            self.reads.setdefault(load.buffer, []).append(load.index)
        for index in op.indices:
            self.reads.setdefault(index.buffer, []).append(index.index)
        if op.target in self.reads:
            self.overwritten.add(op.target)

    def __str__(self) -> str:
        return " + ".join(op.name for op in self.ops)

    @property
    def is_pointwise(self) -> bool:
        return not any(isinstance(op.value, Reduction) or op.indices for op in self.ops)


def fuse(bundle: Bundle, num_cores: Callable[[Bundle, Sequence[LoopOp]], int]) -> Bundle:
    """Group the ops of a bundle into programs.

    `num_cores` returns how many cores the ops use as one program; 0 if they cannot be one.
    """
    groups: list[_Group] = []
    interner = Interner()
    for op in bundle.ops:
        for group in _candidate_groups(groups, op):
            member = _as_member(group, op, interner, bundle.partially_aliased)
            if member is None:
                continue
            cores = num_cores(bundle, [*group.ops, member])
            if not cores:
                logger.debug("%s: no tiles hold %s with %s", bundle.name, op.name, group)
            elif _loses_cores(group, cores, bundle, num_cores):
                text = "%s: %s stays apart from %s, which would use %d cores instead of %d"
                logger.debug(text, bundle.name, op.name, group, cores, group.cores)
            else:
                group.add(member)
                group.cores = cores
                break
        else:
            groups.append(_Group())
            groups[-1].add(with_symbols(op, {}, interner))
    return replace(bundle, groups=tuple(tuple(group.ops) for group in groups))


def _loses_cores(
    group: _Group,
    cores: int,
    bundle: Bundle,
    num_cores: Callable[[Bundle, Sequence[LoopOp]], int],
) -> bool:
    """Return whether a matmul would use fewer cores with the new op than without.

    Fewer cores cost a matmul more time than the memory traffic that fusion saves.
    """
    if not group.ops[0].is_matmul:
        return False
    if not group.cores:
        group.cores = num_cores(bundle, group.ops)
    return cores < group.cores


def _candidate_groups(groups: Sequence[_Group], op: LoopOp) -> Iterator[_Group]:
    """Yield the groups that the op can be moved to, the last first.

    The op can move past groups that neither write what it accesses nor read what it writes.
    """
    accessed = {op.target, *(load.buffer for load in op.loads)}
    accessed |= {index.buffer for index in op.indices}
    for group in reversed(groups):
        yield group
        written = {member.target for member in group.ops}
        if written & accessed or op.target in group.reads:
            return


def _as_member(
    group: _Group, op: LoopOp, interner: Interner, partially_aliased: frozenset[str]
) -> LoopOp | None:
    """Return the op in the group's symbols; None if it cannot be fused with the group."""
    if op.is_partial or any(member.is_partial for member in group.ops):
        return None
    if op.is_matmul or op.target in group.written:
        return None
    if op.is_multi_loop or group.ops[0].is_multi_loop:
        return op if _can_merge(group, op) and op.target not in group.reads else None
    if any(load.indirect or load.buffer in group.overwritten for load in op.loads):
        return None
    mapping: dict[Symbol, Symbol] = {}
    results_read = [load for load in op.loads if load.buffer in group.written]
    for load in results_read:
        renames = _matching_renames(load.index, op.sizes, group.written[load.buffer], group.sizes)
        if renames is None or not _try_merge(mapping, renames):
            return None
    if not results_read and not _reads_same_points(group, op, mapping):
        return None
    if not _try_complete(mapping, group, op):
        return None
    member = with_symbols(op, mapping, interner)
    if op.target in group.reads and (
        op.target in partially_aliased or not _overwrites_same_points(group, member)
    ):
        return None
    return member


def _reads_same_points(group: _Group, op: LoopOp, mapping: dict[Symbol, Symbol]) -> bool:
    """Return whether both iterate over the same points and read one input at each.

    If so, add the renames to `mapping`.
    """
    if isinstance(op.value, Reduction) or op.scattered or not group.is_pointwise:
        return False
    sizes = {symbol for symbol, size in op.sizes.items() if size > 1}
    for load in op.loads:
        if not sizes or not sizes <= load.index.free_symbols:
            continue
        for index in group.reads.get(load.buffer, ()):
            renames = _matching_renames(load.index, op.sizes, index, group.sizes)
            if renames is None or len(renames) != _num_loops(group.sizes):
                continue
            if _try_merge(mapping, renames):
                return True
    return False


def _num_loops(sizes: Mapping[Symbol, int]) -> int:
    return sum(size > 1 for size in sizes.values())


def _overwrites_same_points(group: _Group, op: LoopOp) -> bool:
    """Return whether the op writes each element at the point where the group reads it."""
    if isinstance(op.value, Reduction) or not group.is_pointwise:
        return False
    symbols = {symbol for symbol, size in (group.sizes | dict(op.sizes)).items() if size > 1}
    own_reads = [load.index for load in op.loads if load.buffer == op.target]
    return symbols <= sympy.sympify(op.write).free_symbols and all(
        index == op.write for index in (*group.reads[op.target], *own_reads)
    )


def _can_merge(group: _Group, op: LoopOp) -> bool:
    """Return whether the kernel of a multi-loop op computes `op` as well, in the same symbols."""
    value = group.ops[0].value
    if not op.is_multi_loop or not group.ops[0].is_multi_loop:
        return False
    assert isinstance(value, Reduction)
    return multi_loop_op(value.op).can_merge(group.ops, op)


def _matching_renames(
    read: sympy.Expr,
    read_sizes: Mapping[Symbol, int],
    written: sympy.Expr,
    written_sizes: Mapping[Symbol, int],
) -> dict[Symbol, Symbol] | None:
    """Return the renames of symbols that make two indices equal; None if there are none."""
    read_terms, written_terms = _terms(read), _terms(written)
    if read_terms is None or written_terms is None or read_terms.keys() != written_terms.keys():
        return None
    renames: dict[Symbol, Symbol] = {}
    for factor, symbol in read_terms.items():
        if factor == 0:
            if symbol != written_terms[0]:
                return None
            continue
        target = written_terms[factor]
        # A symbol without a size is a value of an index tensor, not a loop.
        if target not in written_sizes or read_sizes[symbol] != written_sizes[target]:
            return None
        renames[symbol] = target
    return renames


def _terms(index: sympy.Expr) -> dict[int, object] | None:
    """Return the symbols of a linear index by factor, and its constant at 0; None if nonlinear."""
    terms: dict[int, object] = {0: 0}
    for term, factor in sympy.sympify(index).as_coefficients_dict().items():
        if term == 1:
            terms[0] = int(factor)
        elif term.is_Symbol and factor.is_Integer and int(factor) not in terms:
            terms[int(factor)] = term
        else:
            return None
    return terms


def _try_merge(mapping: dict[Symbol, Symbol], renames: Mapping[Symbol, Symbol]) -> bool:
    """Add renames to the mapping; return whether it remains one-to-one."""
    for symbol, target in renames.items():
        if mapping.setdefault(symbol, target) != target:
            return False
    return len(set(mapping.values())) == len(mapping)


def _try_complete(mapping: dict[Symbol, Symbol], group: _Group, op: LoopOp) -> bool:
    """Map the remaining symbols; return False if a symbol has no counterpart in the group.

    Symbols with which both read a common input at the same index are preferred.
    """
    for load in op.loads:
        for index in group.reads.get(load.buffer, ()):
            renames = _matching_renames(load.index, op.sizes, index, group.sizes)
            if renames is None:
                continue
            trial = dict(mapping)
            if _try_merge(trial, renames):
                mapping.update(trial)
    for symbol, size in op.sizes.items():
        if symbol in mapping:
            continue
        free = [
            candidate
            for candidate, extent in group.sizes.items()
            if extent == size and candidate not in mapping.values()
        ]
        if not free:
            return False
        mapping[symbol] = free[-1]
    return True
