"""What the C++ runtime is told: which cards are visible, and how they behave.

Called by C++, at most once each: `enumerate_cards` when somebody asks how many cards there are,
`runtime_config` when the first one is used. The values come from `knobs` and the card description.
"""

from typing import Any

from torch_spyre import knobs
from torch_spyre.errors import KnobError, SpyreError

# A full ensemble: what SPYRE_DEVICES chooses from when AIU_WORLD_SIZE does not say how many
# emulated cards there are.
EMULATED_ENSEMBLE = 8
# Beyond any machine: a mainframe takes 48.
MOST_CARDS = 64


def enumerate_cards() -> dict[str, Any]:
    chosen = knobs.device.visible
    present = knobs.device.world_size or (1 if chosen is None else EMULATED_ENSEMBLE)
    if present > MOST_CARDS:
        raise KnobError("AIU_WORLD_SIZE", str(present), f"an integer from 1 to {MOST_CARDS}")
    cards = range(present) if chosen is None else [c for c in chosen if 0 <= c < present]
    return {
        "mode": knobs.device.driver,
        "cards": list(cards),
        "default_card": knobs.device.local_rank or 0,
    }


def runtime_config() -> dict[str, Any]:
    if knobs.device.inductor_subprocess:
        raise SpyreError(
            "this process was started by Inductor to compile and must not open a card "
            "(IS_INDUCTOR_SPAWNED_SUBPROCESS is set)"
        )
    # Late: the card description needs pydantic, which would slow down `import torch`.
    from torch_spyre.cards import load_card

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
        "cached_bytes_limit": knobs.emulator.cache_megabytes * 2**20,
        "poison": knobs.emulator.poison,
        "host_threads": knobs.emulator.threads,
        "trace": knobs.logging.debug != 0,
        "ieee_fp16": knobs.emulator.fp16 == "ieee",
        "cpu_capability": knobs.pytorch.cpu_capability or "",
        "fallback": knobs.execution.fallback,
        "int64_overflow": knobs.execution.int64_overflow,
    }
