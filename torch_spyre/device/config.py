"""Configuration of the C++ runtime: the visible cards, and their properties.

C++ calls `enumerate_cards` when the number of cards is first needed, and `runtime_config` when the
first card is used, both at most once. The values come from `knobs` and the card description.
"""

import os.path
import warnings
from typing import Any

from torch_spyre import knobs
from torch_spyre.errors import MonitorWarning, SpyreError
from torch_spyre.visible_cards import visible_cards


def enumerate_cards() -> dict[str, Any]:
    """Return the driver, the indices of the visible cards, and the default card."""
    return {
        "mode": knobs.device.driver,
        "cards": visible_cards(),
        "default_card": knobs.device.local_rank or 0,
    }


def warn_unmonitored(folder: str, reason: str) -> None:
    """Warn that `spyre smi` does not see the cards of this process."""
    warnings.warn(MonitorWarning(folder, reason), stacklevel=2)


def runtime_config() -> dict[str, Any]:
    """Return the properties of the card in use and the settings of the runtime."""
    if knobs.device.inductor_subprocess:
        raise SpyreError(
            "this process was started by Inductor to compile and must not open a card "
            "(IS_INDUCTOR_SPAWNED_SUBPROCESS is set)"
        )
    # Imported here: the card description needs pydantic, which would slow down `import torch`.
    from torch_spyre.cards import load_card
    from torch_spyre.monitor.published_card import published_card
    from torch_spyre.monitor.sample import remove_dead_files
    from torch_spyre.ops import fallback_policy

    card = load_card()
    monitor_folder = os.path.abspath(knobs.monitor.folder) if knobs.monitor.folder else ""
    if monitor_folder:
        remove_dead_files(monitor_folder)
    return {
        "name": card.identity.name,
        "type": card.identity.type,
        "cores": card.compute.cores,
        "scratchpad_bytes": card.compute.lx_bytes,
        "physical_bytes": card.memory.physical_bytes,
        "usable_bytes": card.memory.usable_bytes,
        "span_bytes": card.memory.span_limit_bytes,
        "host_link_bytes_per_second": int(card.timing.PCIE_GBS * 10**9),
        "host_link_latency_ps": int(card.timing.PCIE_LAT_US * 10**6),
        "memory_bytes_per_second": int(card.timing.DDR_PEAK * 10**9),
        "launch_ps": int(card.timing.LAUNCH_US * 10**6),
        "narrow_lanes": card.timing.SFP_LANES_16,
        "wide_lanes": card.timing.SFP_LANES_32,
        "cached_bytes_limit": knobs.emulator.cache_megabytes * 2**20,
        "poison": knobs.emulator.poison,
        "host_threads": knobs.emulator.threads,
        "monitor_folder": monitor_folder,
        "monitor_description": published_card(card).model_dump_json(),
        "trace": knobs.logging.debug != 0,
        "ieee_fp16": knobs.emulator.fp16 == "ieee",
        "cpu_capability": knobs.pytorch.cpu_capability or "",
        "fallback": fallback_policy.of_environment(),
        "int64_overflow": knobs.execution.int64_overflow,
    }
