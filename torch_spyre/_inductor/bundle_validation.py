"""Checks the invariants of a bundle between two passes.

Every pass of `pipeline.py` states the form that the bundle has after it. A form includes the
invariants of all forms before it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import Coordinate, Load, LoopOp, Reduction, traverse
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre.errors import InvalidBundleError, InvalidOpSpecError


class BundleForm(IntEnum):
    """The states of a bundle, in the order in which the passes establish them."""

    LOOPS = 0
    # No loop is empty.
    POINTS = 1
    # Every tensor has a device layout.
    LAYOUTS = 2
    # The loops are grouped into programs.
    GROUPS = 3
    # Loops of a group may be split into several groups.
    CHUNKS = 4
    # Every group has its OpSpecs, on one core.
    SPECS = 5
    # The OpSpecs of a group are divided over cores.
    DIVIDED = 6


def validate_bundle(bundle: Bundle, form: BundleForm) -> None:
    """Raise `InvalidBundleError` if the bundle does not have this form."""
    _check_loops(bundle, bundle.ops, form)
    _check_definitions(bundle, bundle.ops)
    if form >= BundleForm.LAYOUTS:
        _check_layouts(bundle)
    if form >= BundleForm.GROUPS:
        _check_groups(bundle, form)
    if form >= BundleForm.SPECS:
        _check_stages(bundle, form)


def _check_loops(bundle: Bundle, ops: Sequence[LoopOp], form: BundleForm) -> None:
    for op in ops:
        for name in _touched(op):
            _require(
                op,
                name in bundle.tensors,
                f"it accesses {name}, which is not a tensor of the bundle",
            )
        smallest = 1 if form >= BundleForm.POINTS else 0
        for symbol, size in op.sizes.items():
            _require(op, size >= smallest, f"its loop over {symbol} has {size} iterations")
        _check_symbols(op)
        _check_reduction(op)


def _check_symbols(op: LoopOp) -> None:
    """Check that indices depend on loops of the op, or on values that its index tensors hold."""
    loops = frozenset(op.sizes)
    looked_up = frozenset(symbol for symbol, _ in op.scattered)
    _require_symbols(op, op.write, loops | looked_up, "its write")
    for node in traverse(op.roots):
        if isinstance(node, Coordinate):
            _require_symbols(op, node.expression, loops, "a coordinate")
        if isinstance(node, Load):
            indices = frozenset(symbol for symbol, _ in node.indirect)
            _require_symbols(op, node.index, loops | indices, f"its load of {node.buffer}")
    for load in op.indices:
        _require_symbols(op, load.index, loops, f"its load of the indices {load.buffer}")


def _require_symbols(
    op: LoopOp, expression: sympy.Expr, allowed: frozenset[Symbol], access: str
) -> None:
    unknown = sympy.sympify(expression).free_symbols - allowed
    names = ", ".join(sorted(map(str, unknown)))
    _require(op, not unknown, f"{access} depends on {names}, which is not a loop of the op")


def _check_reduction(op: LoopOp) -> None:
    reduced = frozenset(op.reduced)
    _require(op, reduced <= frozenset(op.sizes), "it reduces along symbols without a loop")
    _require(
        op,
        not reduced or isinstance(op.value, Reduction),
        "it has reduced symbols, but its value is not a reduction",
    )
    written = sympy.sympify(op.write).free_symbols & reduced
    _require(op, not written, "its write depends on a symbol that it reduces along")


def _check_definitions(bundle: Bundle, ops: Sequence[LoopOp]) -> None:
    """Check that every buffer is an argument, or is written before it is read."""
    defined = set(bundle.arguments)
    for op in ops:
        for name in (load.buffer for load in (*op.loads, *op.indices)):
            _require(op, name in defined, f"it reads {name}, which is not defined before it")
        is_visible = op.target not in bundle.results or op.target in bundle.arguments
        _require(op, is_visible, f"it writes the result {op.target}, which is not an argument")
        defined.add(op.target)


def _check_layouts(bundle: Bundle) -> None:
    for op in bundle.ops:
        for name in _touched(op):
            has_layout = bundle.tensors[name].layout is not None
            _require(op, has_layout, f"its tensor {name} has no layout")


def _check_groups(bundle: Bundle, form: BundleForm) -> None:
    """Check that the groups partition the ops, and that inputs are defined before their use."""
    grouped = [op for group in bundle.groups for op in group]
    if not all(bundle.groups):
        raise InvalidBundleError("a group has no ops")
    ops, members = Counter(op.name for op in bundle.ops), Counter(op.name for op in grouped)
    is_partition = ops == members if form < BundleForm.CHUNKS else ops.keys() == members.keys()
    if not is_partition:
        difference = sorted((ops - members) + (members - ops))
        raise InvalidBundleError(f"groups do not partition the ops: {', '.join(difference)}")
    _check_loops(bundle, grouped, form)
    _check_definitions(bundle, grouped)


def _check_stages(bundle: Bundle, form: BundleForm) -> None:
    if len(bundle.stages) != len(bundle.groups):
        counts = f"{len(bundle.stages)} stages and {len(bundle.groups)} groups"
        raise InvalidBundleError(f"the bundle has {counts}")
    in_pool: set[str | None] = set()
    for specs in bundle.stages:
        try:
            validate(specs, bundle.card.compute.cores)
        except InvalidOpSpecError as error:
            raise InvalidBundleError(str(error)) from error
        _check_tensor_args(bundle, specs, in_pool)
        _check_splits(specs, form)


def _check_tensor_args(bundle: Bundle, specs: Sequence[OpSpec], in_pool: set[str | None]) -> None:
    """Check that specs read only arguments, and tensors that earlier specs have written."""
    in_scratchpad: set[str | None] = set()
    for spec in specs:
        for arg in spec.args:
            if arg.arg_index >= 0:
                is_bound = arg.arg_index < len(bundle.arguments)
                is_bound = is_bound and bundle.arguments[arg.arg_index] == arg.name
                _require_spec(spec, is_bound, f"{arg.name} is not argument {arg.arg_index}")
            elif arg.is_input:
                written = in_scratchpad if arg.in_scratchpad else in_pool
                _require_spec(spec, arg.name in written, f"{arg.name} is not defined before it")
        if spec.output.arg_index < 0:
            (in_scratchpad if spec.output.in_scratchpad else in_pool).add(spec.output.name)


def _check_splits(specs: Sequence[OpSpec], form: BundleForm) -> None:
    """Check that the specs of one program agree on the size and the split of every symbol."""
    space: dict[Symbol, tuple[int, int]] = {}
    for spec in specs:
        for symbol, (size, split) in spec.iteration_space.items():
            shared = space.setdefault(symbol, (int(size), split))
            agrees = shared == (int(size), split)
            _require_spec(
                spec,
                agrees,
                f"{symbol} has size and split {(int(size), split)}, but {shared} before",
            )
            is_expected = split == 1 or form >= BundleForm.DIVIDED
            _require_spec(spec, is_expected, f"{symbol} is split before work division")


def _touched(op: LoopOp) -> Iterator[str]:
    yield op.target
    yield from (load.buffer for load in (*op.loads, *op.indices))


def _require(op: LoopOp, holds: bool, problem: str) -> None:
    if not holds:
        raise InvalidBundleError(f"op {op.name}: {problem}")


def _require_spec(spec: OpSpec, holds: bool, problem: str) -> None:
    if not holds:
        raise InvalidBundleError(f"OpSpec {spec.op}: {problem}")
