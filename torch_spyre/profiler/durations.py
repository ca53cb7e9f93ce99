"""Statistics of durations."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Statistics:
    """The distribution of some durations in microseconds."""

    count: int
    total: float
    mean: float
    median: float
    minimum: float
    maximum: float
    deviation: float  # of the sample; 0 for a single duration
    percentile_95: float


def statistics_of(durations: Sequence[float]) -> Statistics | None:
    """Return the statistics of durations, or None if there are none."""
    if not durations:
        return None
    ordered = sorted(durations)
    return Statistics(
        count=len(ordered),
        total=sum(ordered),
        mean=statistics.fmean(ordered),
        median=statistics.median(ordered),
        minimum=ordered[0],
        maximum=ordered[-1],
        deviation=statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        percentile_95=ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    )
