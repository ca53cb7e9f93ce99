"""Configuration of the C++ runtime: the visible cards, and their properties.

C++ calls `enumerate_cards` when the number of cards is first needed, and `runtime_config` when the
first card is used, both at most once. The values come from `knobs` and the card description.
"""

from typing import Any

from torch_spyre import knobs
from torch_spyre.errors import KnobError, SpyreError

# Number of emulated cards that SPYRE_DEVICES selects from if AIU_WORLD_SIZE is not set.
DEFAULT_EMULATED_CARDS = 8
# More than any machine has: a mainframe has at most 48.
MAX_CARDS = 64


def enumerate_cards() -> dict[str, Any]:
    """Return the driver, the indices of the visible cards, and the default card."""
    visible = knobs.device.visible
    count = knobs.device.world_size or (1 if visible is None else DEFAULT_EMULATED_CARDS)
    if count > MAX_CARDS:
        raise KnobError("AIU_WORLD_SIZE", str(count), f"an integer from 1 to {MAX_CARDS}")
    cards = range(count) if visible is None else [card for card in visible if 0 <= card < count]
    return {
        "mode": knobs.device.driver,
        "cards": list(cards),
        "default_card": knobs.device.local_rank or 0,
    }


def runtime_config() -> dict[str, Any]:
    """Return the properties of the card in use and the settings of the runtime."""
    if knobs.device.inductor_subprocess:
        raise SpyreError(
            "this process was started by Inductor to compile and must not open a card "
            "(IS_INDUCTOR_SPAWNED_SUBPROCESS is set)"
        )
    # Imported here: the card description needs pydantic, which would slow down `import torch`.
    from torch_spyre.cards import load_card
    from torch_spyre.ops import fallback_policy

    card = load_card()
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
        "trace": knobs.logging.debug != 0,
        "ieee_fp16": knobs.emulator.fp16 == "ieee",
        "cpu_capability": knobs.pytorch.cpu_capability or "",
        "fallback": fallback_policy.of_environment(),
        "int64_overflow": knobs.execution.int64_overflow,
    }
