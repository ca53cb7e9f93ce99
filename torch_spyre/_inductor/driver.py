"""Compiles the loops of a graph that Inductor lowered into launchable kernels.

There are two callers. An eager op (`eager_op.py`) loads the kernel of its bundle and calls it. A
compiled graph (`scheduling.py`) writes the kernel as source into Inductor's wrapper; when that is
imported, `async_compile.py` loads the same kernel.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch._inductor import config, ir
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.profiler import record_function

from torch_spyre import knobs
from torch_spyre._inductor import compile_log
from torch_spyre._inductor.bundle import Bundle, Tensor, format_loops
from torch_spyre._inductor.bundle_builder import build_bundle
from torch_spyre._inductor.op_spec import OpSpec, without_origins
from torch_spyre._inductor.pipeline import run_passes
from torch_spyre._inductor.provenance import SpecNodes, node_reference, nodes_of
from torch_spyre._inductor.runtime.dump import dump
from torch_spyre._inductor.runtime.recording import RecordedKernel
from torch_spyre._inductor.runtime.runner import Runner

# The part of the folder that TORCH_COMPILE_DEBUG writes for a graph.
_DEBUG_FOLDER = "spyre"


@dataclass(frozen=True)
class BundleRequest:
    """Loops that become one bundle, and the tensors that exist before and after it."""

    name: str
    buffers: Sequence[ir.ComputedBuffer]
    # Tensors that exist before the bundle runs, with their layouts.
    known_tensors: Mapping[str, Tensor]
    # Buffers that are read after the bundle has run.
    results: Sequence[str]
    # Arguments that alias another argument partially: not element by element.
    partially_aliased: frozenset[str] = frozenset()


def compile_bundle(request: BundleRequest, graph: GraphLowering) -> Bundle:
    """Trace the loops and run all passes; return the bundle with the OpSpecs of its stages."""
    begin = time.perf_counter()
    bundle = build_bundle(
        request.name,
        request.buffers,
        request.known_tensors,
        request.results,
        graph,
        request.partially_aliased,
    )
    compile_log.log_loops(bundle)
    bundle = _run_passes(bundle)
    compile_log.record_passes(bundle.name, time.perf_counter() - begin)
    return bundle


def _run_passes(bundle: Bundle) -> Bundle:
    if not knobs.execution.verify_passes:
        return run_passes(bundle)
    from torch_spyre._inductor.verification.pass_checks import run_passes_recorded

    return run_passes_recorded(bundle)


def stages_source(bundle: Bundle) -> str:
    """Return the Python source of the OpSpecs. Bundles with equal source are one kernel."""
    stages = ", ".join(repr(without_origins(specs)) for specs in bundle.stages)
    return f"[{stages}]"


def kernel_source(bundle: Bundle, name: str) -> str:
    """Return the Python source that loads the bundle's kernel in a generated wrapper.

    The wrapper may be loaded from Inductor's cache when kernels are dumped or verified, so it holds
    what that needs. It names nodes of the graph instead of lines of the user's program: the cache
    returns one wrapper for equal graphs of different lines.
    """
    compile_log.rename(bundle.name, name)
    arguments = [
        repr(name),
        stages_source(bundle),
        f"nodes={node_names(bundle.stages)!r}",
        f"loop_ir={format_loops(bundle, node_reference)!r}",
        f"user_ops={list(bundle.user_ops)!r}",
    ]
    return f"async_compile.sdsc({', '.join(arguments)})"


def node_names(stages: Sequence[Sequence[OpSpec]]) -> list[list[SpecNodes]]:
    """Return the names of the nodes that each spec comes from; empty if one is unknown."""
    return [[nodes_of(spec) for spec in specs] for specs in stages]


def load_bundle(bundle: Bundle) -> Runner:
    """Return the kernel of a bundle that has passed through all passes."""
    loop_ir = None if knobs.logging.dump is None else format_loops(bundle, str)
    return load_kernel(bundle.name, bundle.stages, loop_ir, bundle.user_ops)


def load_kernel(
    name: str,
    stages: Sequence[Sequence[OpSpec]],
    loop_ir: str | None,
    user_ops: Sequence[str] = (),
) -> Runner:
    """Load the programs of all stages, from the cache if possible; dump and verify on request.

    `loop_ir` is the text of the loops that the stages come from, and `user_ops` are the ops of the
    user's program: dumps and messages show them.
    """
    # Profilers show the region by the name that it has in traces of hardware.
    with record_function(f"dxp_standalone:{name}"), compile_log.compilation(name) as compilation:
        root = _dump_folder()
        folder = None if root is None else dump(root, name, stages, loop_ir, user_ops)
        kernel = Runner(name, stages)
        compile_log.log_kernel(name, stages, compilation, kernel.time_ps)
        if knobs.execution.verify:
            from torch_spyre._inductor.verification.kernel import VerifiedKernel

            kernel.wrap(lambda run: VerifiedKernel(name, stages, run, user_ops, folder))
        if folder is not None:
            kernel.run = RecordedKernel(folder, stages, kernel.run)
        return kernel


def _dump_folder() -> str | None:
    """Return the folder to dump kernels to, or None.

    Without the knob, it is a part of what TORCH_COMPILE_DEBUG writes for the graph being compiled.
    """
    if knobs.logging.dump is not None:
        return knobs.logging.dump
    if config.trace.enabled and isinstance(V.debug, DebugContext):
        return str(V.debug.filename(_DEBUG_FOLDER))
    return None
