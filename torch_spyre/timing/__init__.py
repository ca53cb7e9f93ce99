"""The clock: what a program would take on the card.

A compiler writes a `ProgramRecord`; `estimate(record)` gives its `Timing` from the constants of the
card description. Profiler, monitor, cost model and reports all use that one function, so they can
never disagree. Data values and the host play no part. `docs/timing.md` has the model.
"""

from torch_spyre.timing.estimate import estimate, fingerprint
from torch_spyre.timing.record import (
    DdrPattern,
    DdrTransfer,
    LxTraffic,
    ProgramRecord,
    PtWork,
    Relayout,
    RingTransfer,
    SfpWork,
    Step,
    TimingRecordError,
)
from torch_spyre.timing.result import (
    CoreUtilisation,
    StepSpan,
    Timing,
    Unit,
    UnitTimes,
    Utilisation,
)

__all__ = [
    "CoreUtilisation",
    "DdrPattern",
    "DdrTransfer",
    "LxTraffic",
    "ProgramRecord",
    "PtWork",
    "Relayout",
    "RingTransfer",
    "SfpWork",
    "Step",
    "StepSpan",
    "Timing",
    "TimingRecordError",
    "Unit",
    "UnitTimes",
    "Utilisation",
    "estimate",
    "fingerprint",
]
