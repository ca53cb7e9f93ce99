"""Texts of times, shares and names for the reports of traces."""

from torch_spyre.html_pages.quantities import quantity
from torch_spyre.profiler.kernels import WorkRow

_MICROSECONDS = 1e-6


def time(microseconds: float) -> str:
    return quantity(microseconds * _MICROSECONDS, "s")


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def bytes_text(value: float | None) -> str:
    return "-" if value is None else quantity(value, "B")


def bandwidth(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g} GB/s"


def change(ratio: float | None) -> str:
    return "new" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def pt_utilisation(row: WorkRow) -> str:
    """Return the utilisation of the matrix unit; a value that is impossible is not shown."""
    if row.num_exceeding:
        return "> 100 % (!)"
    return share(row.utilisations.get("pt"))


def shortened(name: str, length: int) -> str:
    """Return a name of at most this length, without its middle if it is longer."""
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"
