"""Counters inside kernels: executions, device time and cycles of units, by instruction and core.

All numbers come from the recorder and the timing model (`torch_spyre.timing`), which also determine
the device time of launches.
"""

from torch_spyre.kernel_counters.counters import KernelCounters, kernel_counters
from torch_spyre.kernel_counters.unit_cycles import UnitCycles

__all__ = ["KernelCounters", "UnitCycles", "kernel_counters"]
