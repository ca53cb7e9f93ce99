"""Profiling: `torch.profiler` shows the work of the cards, and traces can be analysed.

PyTorch's profiler needs nothing from here; `docs/profiling.md` describes what it shows.
"""


def is_available() -> bool:
    """Return whether profiles of `torch.profiler` contain the work of the cards."""
    # Imported here, so that tools that only read traces need neither torch nor the extension.
    import torch  # noqa: F401  # loads the libraries that _C needs

    from torch_spyre import _C

    return _C._is_profiler_registered()
