"""Compiles a graph for the tensors it is called with, once for each combination of metadata.

Dynamo and AOTAutograd do not know device layouts, and programs have fixed sizes. So a graph is
compiled when it is first called with real tensors, for their sizes, strides and layouts. A graph
with symbolic sizes gets a variant for each of the first few sizes, and for later sizes that recur.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch._functorch._aot_autograd.streams import wrap_all_sync_nodes_with_control_deps
from torch._guards import TracingContext, tracing
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.exc import InductorError, LoweringException
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from torch_spyre import _C
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.draws import merge_draws
from torch_spyre._inductor.fx_passes import (
    lines_of_fallbacks,
    move_host_scalars_and_indices,
    reject_subgraphs,
)
from torch_spyre._inductor.graph_families import GraphFamilies
from torch_spyre._inductor.host_conversions import HostConversions
from torch_spyre._inductor.inputs import compiling_for
from torch_spyre._inductor.op_by_op import LocatedInterpreter
from torch_spyre._inductor.provenance import origins_of_graph, tracking
from torch_spyre.device.diagnostics import report_compiler_error, text_with_notes
from torch_spyre.errors import (
    CompilerFailure,
    FallbackError,
    InvalidBundleError,
    KnobError,
    UnsupportedError,
)
from torch_spyre.logging_config import get_logger
from torch_spyre.ops import fallback_policy
from torch_spyre.ops.plans import Plans
from torch_spyre.user_frames import current_line, warn_at

logger = get_logger("torch_spyre.inductor")

Compiled = Callable[[list[Any]], Any]
# Variants of one graph that are cached; the oldest is evicted first.
_MAX_VARIANTS = 256
# A graph with more variants, such as a decoder with a growing cache, is likely to get many more.
# Compiling takes longer than running op by op, so later inputs are compiled when they recur.
_MAX_IMMEDIATE_VARIANTS = 4


class Specializing:
    """The variants of one graph, each compiled when first needed."""

    def __init__(self, module: torch.fx.GraphModule, options: dict[str, Any]) -> None:
        self.module, self.options = module, options
        self.variants = Plans()
        self.families = GraphFamilies(module, self._trace)
        self.keys_seen_once: dict[object, None] = {}
        self.lock = threading.Lock()
        # Set when an op fell back while the graph ran op by op, and fallbacks are errors.
        self.must_compile = False

    def __call__(self, arguments: list[Any]) -> Any:
        key = _C.arguments_key(tuple(arguments))
        if key is None:
            is_ragged = any(isinstance(value, torch.SymInt) for value in arguments)
            return (self._ragged_variant if is_ragged else self._compile(arguments))(arguments)
        variant: Compiled | None = self.variants.get(key)
        if variant is None:
            with self.lock:
                variant = self.variants.get(key)
                if variant is None:
                    variant = self._find_in_families(arguments)
                if variant is None and self._is_worth_compiling(key):
                    variant = self._compile(arguments)
                if variant is not None:
                    _insert(self.variants, key, variant)
        return self._run_op_by_op(arguments) if variant is None else variant(arguments)

    def _find_in_families(self, arguments: Sequence[Any]) -> Compiled | None:
        plan = self.families.plan(arguments)
        return None if plan is None else lambda values: plan(values, {})

    def _run_op_by_op(self, arguments: list[Any]) -> Any:
        run = HostConversions(self.module).boxed_run
        if fallback_policy.current().mode != "error":
            return run(arguments)
        # The graph decides which fallbacks are errors, as it does when it is compiled.
        lines_of_fallbacks(self.module)
        try:
            return run(list(arguments))
        except FallbackError:
            # Functional graphs write to their inputs last, so it can run again.
            self.must_compile = True
            return self(arguments)

    def _is_worth_compiling(self, key: object) -> bool:
        has_few = len(self.variants) < _MAX_IMMEDIATE_VARIANTS
        if has_few or key in self.keys_seen_once or self.must_compile:
            self.keys_seen_once.pop(key, None)
            return True
        _insert(self.keys_seen_once, key, None)
        logger.debug(
            "a graph with %d variants runs op by op for new inputs, until these recur",
            len(self.variants),
        )
        return False

    @cached_property
    def _ragged_variant(self) -> Compiled:
        """The variant for sizes of nested tensors, which cannot be traced as integers."""
        lines_of_fallbacks(self.module)
        return _op_by_op(self.module, UnsupportedError("ragged sizes of nested tensors in a graph"))

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        begin = time.perf_counter()
        fallbacks = lines_of_fallbacks(self.module)
        for op, line in fallbacks.items():
            logger.info("%s falls back in a compiled graph, at %s", op, line)
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        fakes = [
            mode.from_tensor(value, static_shapes=True)
            if isinstance(value, torch.Tensor)
            else value
            for value in arguments
        ]
        with torch.no_grad(), compiling():
            module = self._trace(mode, fakes)
            context = TracingContext(mode)
            origins = origins_of_graph(module, self.module)
            try:
                with (
                    tracing(context),
                    V.set_fake_mode(mode),
                    compiling_for(arguments),
                    tracking(origins),
                ):
                    reject_subgraphs(module)
                    # Tracing has inlined the dependencies that order ops and waits for streams.
                    wrap_all_sync_nodes_with_control_deps(module)
                    compiled: Compiled = compile_fx_inner(module, fakes, **self.options)
            except Exception as error:
                reason = _reason(error)
                # Compiling has modified the traced graph.
                return _op_by_op(self._trace(mode, fakes), reason)
        logger.debug(
            "variant %d of a graph of %d nodes: %.0f ms",
            len(self.variants) + 1,
            len(module.graph.nodes),
            (time.perf_counter() - begin) * 1000,
        )
        return partial(origins.lines(fallbacks).run, compiled)

    def _trace(self, mode: FakeTensorMode, fakes: Sequence[Any]) -> torch.fx.GraphModule:
        """Return the graph for these inputs, with concrete sizes and strides."""
        # Interpreted, so that nodes retain the names and source lines of their ops.
        graph = HostConversions(self.module).run
        with mode, torch.fx.traceback.preserve_node_meta():
            module = make_fx(graph, tracing_mode="real")(*fakes)
            move_host_scalars_and_indices(module)
            merge_draws(module)
        return module


def _insert(variants: dict[object, Any], key: object, value: Any) -> None:
    if len(variants) >= _MAX_VARIANTS:
        del variants[next(iter(variants))]
    variants[key] = value


def specializing(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Compiled:
    """Return a graph that compiles itself when it is called; replaces Inductor's inner compiler."""
    retained = ("is_backward", "is_inference", "static_input_idxs", "graph_id", "layout_opt")
    variants = Specializing(module, {name: options[name] for name in retained if name in options})

    # A function, since AOTAutograd sets attributes on it and wraps it.
    def compiled(arguments: list[Any]) -> Any:
        return variants(arguments)

    compiled._boxed_call = True  # type: ignore[attr-defined]  # arguments are one list
    return compiled


def _reason(error: Exception) -> UnsupportedError:
    """Return why a graph cannot be compiled; warn if that is a bug of the compiler."""
    cause = _innermost(error)
    if isinstance(cause, UnsupportedError):
        return cause
    if isinstance(cause, GuardOnDataDependentSymNode):
        return UnsupportedError(f"a size that depends on data ({cause.cond})")
    if isinstance(cause, NotImplementedError):
        return UnsupportedError(str(cause))
    if isinstance(cause, KnobError | InvalidBundleError):
        if isinstance(cause, InvalidBundleError):
            report_compiler_error(cause)
        raise cause
    if isinstance(cause, torch.OutOfMemoryError):
        raise error
    failure = CompilerFailure("a graph", cause)
    failure.__cause__ = cause
    report_compiler_error(failure)
    warn_at(current_line(), text_with_notes(failure), RuntimeWarning)
    logger.error("%s", failure, exc_info=error)
    return failure


def _innermost(error: BaseException) -> BaseException:
    """Return the error that Inductor's errors wrap."""
    while not isinstance(error, UnsupportedError | KnobError):
        inner = error.inner_exception if isinstance(error, InductorError) else error.__cause__
        if isinstance(error, LoweringException):
            inner = error.__context__  # raised from None, with a copy of the text
        if inner is None:
            break
        error = inner
    return error


def _op_by_op(module: torch.fx.GraphModule, reason: UnsupportedError) -> Compiled:
    """Return a function that runs the ops of a graph eagerly."""
    logger.warning("a compiled graph runs op by op: %s", text_with_notes(reason))
    return LocatedInterpreter(module).boxed_run
