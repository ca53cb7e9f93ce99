"""A graph compiled for the very tensors it is called with, once for each kind of them.

Device layouts are not part of what Dynamo and AOTAutograd know, and programs are for fixed sizes.
So a graph is compiled when it is first called: then there are real tensors, whatever their sizes,
strides and layouts. Graphs with symbolic sizes get one variant for each of the first sizes they
meet, and for those of the others that they meet again.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.exc import InductorError, LoweringException
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from torch_spyre import _C, knobs
from torch_spyre._inductor.bundle_validation import InvalidBundleError
from torch_spyre._inductor.context import compiling
from torch_spyre._inductor.fx_passes import (
    announce_fallbacks,
    move_numbers_and_indices,
    refuse_inner_graphs,
)
from torch_spyre._inductor.host_conversions import HostConversions
from torch_spyre._inductor.inputs import compiling_for
from torch_spyre.errors import CompilerFailure, FallbackError, KnobError, UnsupportedError
from torch_spyre.logging_config import get_logger
from torch_spyre.ops.plans import Plans

logger = get_logger(__name__)

Compiled = Callable[[list[Any]], Any]
# Variants of one graph that are kept; the oldest goes first.
_MOST_VARIANTS = 256
# A graph that has met so many kinds of inputs, as one with a growing cache does, will meet more.
# Compiling takes longer than running op by op, so it waits until a kind comes again.
_COMPILED_AT_ONCE = 4


class Specializing:
    """The variants of one graph, each compiled when first needed."""

    def __init__(self, module: torch.fx.GraphModule, options: dict[str, Any]) -> None:
        self.module, self.options = module, options
        self.variants = Plans()
        self.met_once: dict[object, None] = {}
        self.lock = threading.Lock()
        # An op of the graph fell back where it ran by itself, and that was forbidden.
        self.only_compiled = False

    def __call__(self, arguments: list[Any]) -> Any:
        key = _C.arguments_key(tuple(arguments))
        if key is None:
            ragged = any(isinstance(value, torch.SymInt) for value in arguments)
            return (self._of_ragged if ragged else self._compile(arguments))(arguments)
        variant: Compiled | None = self.variants.get(key)
        if variant is None:
            with self.lock:
                variant = self.variants.get(key)
                if variant is None and self._is_worth_compiling(key):
                    variant = self._compile(arguments)
                    _keep(self.variants, key, variant)
        return self._run_op_by_op(arguments) if variant is None else variant(arguments)

    def _run_op_by_op(self, arguments: list[Any]) -> Any:
        run = HostConversions(self.module).boxed_run
        if knobs.execution.fallback != "error":
            return run(arguments)
        # What is forbidden is judged by the graph, as it is when the graph is compiled.
        announce_fallbacks(self.module)
        try:
            return run(list(arguments))
        except FallbackError:
            # Nothing is written before the end of a graph, so it may run again.
            self.only_compiled = True
            return self(arguments)

    def _is_worth_compiling(self, key: object) -> bool:
        few = len(self.variants) < _COMPILED_AT_ONCE
        if few or key in self.met_once or self.only_compiled:
            self.met_once.pop(key, None)
            return True
        _keep(self.met_once, key, None)
        return False

    @cached_property
    def _of_ragged(self) -> Compiled:
        """For sizes that stand for lengths that differ: no trace takes them for numbers."""
        announce_fallbacks(self.module)
        return _one_by_one(self.module, UnsupportedError("ragged sizes in a graph"))

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        announce_fallbacks(self.module)
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        fakes = [
            mode.from_tensor(value, static_shapes=True)
            if isinstance(value, torch.Tensor)
            else value
            for value in arguments
        ]
        with torch.no_grad(), compiling():
            module = self._traced(mode, fakes)
            context = TracingContext(mode)
            with tracing(context), V.set_fake_mode(mode), compiling_for(arguments):
                try:
                    refuse_inner_graphs(module)
                    compiled: Compiled = compile_fx_inner(module, fakes, **self.options)
                except Exception as error:
                    reason = _reason(error)
                    # What was compiled has been changed on the way.
                    return _one_by_one(self._traced(mode, fakes), reason)
        return compiled

    def _traced(self, mode: FakeTensorMode, fakes: Sequence[Any]) -> torch.fx.GraphModule:
        """The graph with what these inputs are: sizes become numbers, strides the real ones."""
        # Interpreted, so that nodes keep the names and lines of the ops they come from.
        graph = HostConversions(self.module).run
        with mode, torch.fx.traceback.preserve_node_meta():
            module = make_fx(graph, tracing_mode="real")(*fakes)
            move_numbers_and_indices(module)
        return module


def _keep(variants: dict[object, Any], key: object, value: Any) -> None:
    if len(variants) >= _MOST_VARIANTS:
        del variants[next(iter(variants))]
    variants[key] = value


def specializing(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Compiled:
    """Takes the place of Inductor's inner compiler."""
    kept = ("is_backward", "is_inference", "static_input_idxs", "graph_id", "layout_opt")
    variants = Specializing(module, {name: options[name] for name in kept if name in options})

    # A function: AOTAutograd marks what it gets, and wraps it.
    def compiled(arguments: list[Any]) -> Any:
        return variants(arguments)

    compiled._boxed_call = True  # type: ignore[attr-defined]  # it takes its arguments as a list
    return compiled


def _reason(error: Exception) -> UnsupportedError:
    """What the card or Inductor cannot do, or a mistake of ours: that is said loudly."""
    found = _innermost(error)
    if isinstance(found, UnsupportedError):
        return found
    if isinstance(found, GuardOnDataDependentSymNode):
        return UnsupportedError(f"a size that depends on data ({found.cond})")
    if isinstance(found, NotImplementedError):
        return UnsupportedError(str(found))
    if isinstance(found, KnobError | InvalidBundleError):
        raise found
    if isinstance(found, torch.OutOfMemoryError):
        raise error
    failure = CompilerFailure("a graph", found)
    warnings.warn(str(failure), RuntimeWarning, stacklevel=2)
    logger.error("%s", failure, exc_info=error)
    return failure


def _innermost(error: BaseException) -> BaseException:
    """Under what Inductor wraps errors in."""
    while not isinstance(error, UnsupportedError | KnobError):
        inner = error.inner_exception if isinstance(error, InductorError) else error.__cause__
        if isinstance(error, LoweringException):
            inner = error.__context__  # which it hides, having copied the text
        if inner is None:
            break
        error = inner
    return error


def _one_by_one(module: torch.fx.GraphModule, reason: UnsupportedError) -> Compiled:
    """The ops of a graph that cannot be compiled as one, each as if it were called eagerly."""
    logger.warning("a compiled graph runs op by op: %s", reason)
    return torch.fx.Interpreter(module).boxed_run
