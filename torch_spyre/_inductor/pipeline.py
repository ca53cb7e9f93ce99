"""The table of passes that transform a bundle from loops to OpSpecs."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch_spyre import knobs
from torch_spyre._inductor import compile_log
from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.bundle_validation import (
    BundleForm,
    validate_bundle,
)
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.passes.dead_code import eliminate_dead_code
from torch_spyre._inductor.passes.empty_tensors import simplify_empty
from torch_spyre._inductor.passes.fusion import fuse
from torch_spyre._inductor.passes.indirect_access import enforce_indirect_layouts
from torch_spyre._inductor.passes.layouts import propagate_layouts
from torch_spyre._inductor.passes.loop_splitting import split_long_loops
from torch_spyre._inductor.passes.op_specs import specs_of
from torch_spyre._inductor.passes.work_division import divided
from torch_spyre._inductor.provenance import add_origins
from torch_spyre._inductor.tiling.tile_plan import plan_tiles, tile_budget
from torch_spyre.errors import InvalidBundleError, UnsupportedError


@dataclass(frozen=True)
class Pass:
    """A function from bundle to bundle, and the form of the bundles that it returns."""

    name: str
    purpose: str
    run: Callable[[Bundle], Bundle]
    form: BundleForm


def _num_cores(bundle: Bundle, ops: Sequence[LoopOp]) -> int:
    """Return how many cores the ops use as one program; 0 if they cannot be one program."""
    try:
        specs = divided(specs_of(bundle, ops), bundle.card)
        plan = plan_tiles(specs, tile_budget(bundle.card))
        return specs[0].cores if plan is not None else 0
    except UnsupportedError:
        return 0


def _check_spans(bundle: Bundle, ops: Sequence[LoopOp]) -> None:
    divided(specs_of(bundle, ops), bundle.card)


def _fuse(bundle: Bundle) -> Bundle:
    if not knobs.division.fusion:
        return replace(bundle, groups=tuple((op,) for op in bundle.ops))
    return fuse(bundle, _num_cores)


def _split_long_loops(bundle: Bundle) -> Bundle:
    return split_long_loops(bundle, _check_spans)


def _make_specs(bundle: Bundle) -> Bundle:
    stages = []
    for group in bundle.groups:
        with _naming_origins(group):
            stages.append(specs_of(bundle, group))
    return replace(bundle, stages=tuple(stages))


def _divide(bundle: Bundle) -> Bundle:
    stages = []
    for specs in bundle.stages:
        with _naming_origins(specs):
            stages.append(divided(specs, bundle.card))
    return replace(bundle, stages=tuple(stages))


@contextmanager
def _naming_origins(ops: Sequence[LoopOp] | Sequence[OpSpec]) -> Iterator[None]:
    """Add the lines of a program's ops to the error of an unsupported one."""
    try:
        yield
    except UnsupportedError as error:
        add_origins(error, (op.origin for op in ops))
        raise


def _validate(bundle: Bundle) -> Bundle:
    for specs in bundle.stages:
        validate(specs, bundle.card.compute.cores)
    return bundle


# TODO: hints and coarse tiling before fusion, since tiles decide which tensors fit; scratchpad
# planning after work division, when a core's slice of each tensor is known.
# fmt: off
PASSES = (
    Pass("dead code", "drop loops whose results are never read",
         eliminate_dead_code, BundleForm.LOOPS),
    Pass("empty tensors", "drop loops without points; reductions of no elements become constants",
         simplify_empty, BundleForm.POINTS),
    Pass("layouts", "give each tensor a layout; copy where sticks differ",
         propagate_layouts, BundleForm.LAYOUTS),
    Pass("indirect access", "copy tables whose indexed dim is the stick",
         enforce_indirect_layouts, BundleForm.LAYOUTS),
    Pass("fusion", "group loops whose intermediates can stay in the scratchpad",
         _fuse, BundleForm.GROUPS),
    Pass("loop splitting", "split loops that exceed the span limit of a tensor",
         _split_long_loops, BundleForm.CHUNKS),
    Pass("op specs", "make an OpSpec of each operation, on aligned symbols",
         _make_specs, BundleForm.SPECS),
    Pass("work division", "split the symbols over cores",
         _divide, BundleForm.DIVIDED),
    Pass("validation", "check the invariants of every OpSpec",
         _validate, BundleForm.DIVIDED),
)
# fmt: on


# Called with the name of a pass, or "tracing" before all passes, and the bundle that it leaves.
PassObserver = Callable[[str, Bundle], None]
_observers: list[PassObserver] = []


@contextmanager
def observed_by(observer: PassObserver) -> Iterator[None]:
    """Within the block, call the observer after each pass on each bundle."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def run_passes(bundle: Bundle) -> Bundle:
    """Return the bundle after all passes, with the OpSpecs of its stages.

    With TORCH_SPYRE_VALIDATE_PASSES, raise InvalidBundleError after a pass that leaves an invalid
    bundle.
    """
    is_validated = knobs.execution.validate_passes
    _notify_observers("tracing", bundle)
    for entry in PASSES:
        bundle = _run(entry, bundle)
        _notify_observers(entry.name, bundle)
        if is_validated:
            _validate_form(bundle, entry)
    return bundle


def _notify_observers(name: str, bundle: Bundle) -> None:
    for observer in _observers:
        observer(name, bundle)


def _run(entry: Pass, bundle: Bundle) -> Bundle:
    if not compile_log.logger_of(entry.name).isEnabledFor(logging.DEBUG):
        return entry.run(bundle)
    begin = time.perf_counter()
    result = entry.run(bundle)
    compile_log.log_pass(entry.name, bundle, result, time.perf_counter() - begin)
    return result


def _validate_form(bundle: Bundle, entry: Pass) -> None:
    try:
        validate_bundle(bundle, entry.form)
    except InvalidBundleError as error:
        message = f"pass {entry.name!r} left an invalid bundle {bundle.name}: {error}"
        raise InvalidBundleError(message) from None
