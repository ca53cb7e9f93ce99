"""Shows the cards of this machine and their work, from the files of the processes that use them.

Every process that opens cards has a small file in shared memory with the counters of its cards
(`csrc/flex/monitor_file.h`). `take_sample` reads the files of all processes of this user, and
`activity` returns what happened between two samples. `spyre smi` and `aiu-smi` print it.

Nothing here needs torch.
"""

from torch_spyre.monitor.activity import CardActivity, ProcessActivity, activity, idle_card
from torch_spyre.monitor.sample import Sample, Skipped, take_sample

__all__ = [
    "CardActivity",
    "ProcessActivity",
    "Sample",
    "Skipped",
    "activity",
    "idle_card",
    "take_sample",
]
