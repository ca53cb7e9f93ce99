"""Profiling: `torch.profiler` shows the work of the cards, and traces can be analysed.

PyTorch's profiler needs nothing from here; `docs/profiling.md` describes what it shows.
`instrument` shows what happens inside kernels, see `docs/kernel-counters.md`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_spyre.kernel_counters.instrument import Instrumentation


def is_available() -> bool:
    """Return whether profiles of `torch.profiler` contain the work of the cards."""
    # Imported here, so that tools that only read traces need neither torch nor the extension.
    import torch  # noqa: F401  # loads the libraries that _C needs

    from torch_spyre import _C

    return _C._is_profiler_registered()


def instrument(
    metrics: Sequence[str] | None = None, ops: Sequence[str] | None = None
) -> "Instrumentation":
    """Return a context that counts launches, and reports what happens inside their kernels.

    `metrics` are columns and tables of the printed report: executions, exec (the time), dma (the
    time of device memory), pe (the share of the time that the matrix unit works), ddr and lx
    (bytes), units and cores (cycles); most of them by default. `ops` restricts the report to
    kernels of these ops: names of ATen ops, with or without `aten.`, or of ops of the card.
    """
    import torch  # noqa: F401  # as in is_available

    from torch_spyre.kernel_counters.instrument import Instrumentation
    from torch_spyre.kernel_counters.metrics import DEFAULT_METRICS

    return Instrumentation(DEFAULT_METRICS if metrics is None else metrics, ops)
