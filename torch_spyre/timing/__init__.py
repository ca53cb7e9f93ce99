"""The timing model: estimates the device time of a program.

A compiler writes a `ProgramRecord`; `estimate(record)` returns its `Timing`, computed from the
constants of the card description. Profiler, monitor, cost model and reports all call that function,
so they cannot disagree. Neither data values nor the host have an influence. `docs/timing.md`
describes the model.
"""

from torch_spyre.errors import TimingRecordError
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
    TileLoop,
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
    "TileLoop",
    "Timing",
    "TimingRecordError",
    "Unit",
    "UnitTimes",
    "Utilisation",
    "estimate",
    "fingerprint",
]
