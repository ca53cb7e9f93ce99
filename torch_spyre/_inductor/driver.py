"""Compiles the loops of a graph that Inductor lowered into launchable kernels.

There are two callers. An eager op (`eager_op.py`) loads the kernel of its bundle and calls it. A
compiled graph (`scheduling.py`) writes the kernel as source into Inductor's wrapper; when that is
imported, `async_compile.py` loads the same kernel.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch._inductor import ir
from torch._inductor.graph import GraphLowering
from torch.profiler import record_function

from torch_spyre import knobs
from torch_spyre._inductor import compile_log
from torch_spyre._inductor.bundle import Bundle, Tensor, format_loops
from torch_spyre._inductor.bundle_builder import build_bundle
from torch_spyre._inductor.op_spec import OpSpec, without_origins
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.pipeline import run_passes
from torch_spyre._inductor.provenance import node_reference
from torch_spyre._inductor.runtime.dump import dump
from torch_spyre._inductor.runtime.runner import Runner


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
    bundle = run_passes(bundle)
    compile_log.record_passes(bundle.name, time.perf_counter() - begin)
    return bundle


def stages_source(bundle: Bundle) -> str:
    """Return the Python source of the OpSpecs. Bundles with equal source are one kernel."""
    stages = ", ".join(repr(without_origins(specs)) for specs in bundle.stages)
    return f"[{stages}]"


def kernel_source(bundle: Bundle, name: str) -> str:
    """Return the Python source that loads the bundle's kernel in a generated wrapper.

    It names nodes of the graph instead of lines of the user's program: Inductor's cache returns one
    wrapper for equal graphs of different lines.
    """
    compile_log.rename(bundle.name, name)
    loop_ir = _loop_ir(bundle, node_reference)
    dumped = "" if loop_ir is None else f", loop_ir={loop_ir!r}"
    nodes = node_names(bundle.stages)
    return f"async_compile.sdsc({name!r}, {stages_source(bundle)}, nodes={nodes!r}{dumped})"


def node_names(stages: Sequence[Sequence[OpSpec]]) -> list[list[str]]:
    """Return the name of the node that each spec comes from; empty if it is unknown."""
    return [[spec.origin.node if spec.origin else "" for spec in specs] for specs in stages]


def load_bundle(bundle: Bundle) -> Runner:
    """Return the kernel of a bundle that has passed through all passes."""
    return load_kernel(bundle.name, bundle.stages, _loop_ir(bundle, str))


def load_kernel(name: str, stages: Sequence[Sequence[OpSpec]], loop_ir: str | None) -> Runner:
    """Load the programs of all stages, from the cache if possible; dump them if the knob is set.

    `loop_ir` is the text of the loops that the stages come from, for the dump.
    """
    # Profilers show the region by the name that it has in traces of hardware.
    with record_function(f"dxp_standalone:{name}"), compile_log.compilation(name) as compilation:
        if knobs.logging.dump is not None:
            dump(knobs.logging.dump, name, stages, loop_ir)
        runner = Runner(name, stages)
        compile_log.log_kernel(name, stages, compilation, runner.time_ps)
        return runner


def _loop_ir(bundle: Bundle, describe: Callable[[Origin], str]) -> str | None:
    return None if knobs.logging.dump is None else format_loops(bundle, describe)
