"""How a dumped kernel's work is divided: `division.json`, over cores and over tiles."""

from collections.abc import Sequence
from typing import Any

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.tile_plan import plan_tiles
from torch_spyre.backend.program.program import Program


def division_entry(
    kernel: str, stage: int, specs: Sequence[OpSpec], budget: int, program: Program
) -> dict[str, Any]:
    """Return the splits and tiles of a stage; `budget` is what its tiles may use of a scratchpad.

    A loop has `size` iterations, of which a core computes `per_core`, `tile` at a time.
    """
    plan = plan_tiles(specs, budget)
    assert plan is not None, kernel
    return {
        "kernel": kernel,
        "stage": stage,
        "cores": plan.space.cores,
        "loops": {
            symbol.name: {
                "size": size,
                "split": plan.space.splits[symbol],
                "per_core": plan.per_core[symbol],
                "tile": plan.tile[symbol],
                "is_reduced": symbol in plan.space.reduced,
                "is_streamed": symbol in plan.streamed,
            }
            for symbol, size in plan.space.sizes.items()
        },
        "tile_budget_bytes": budget,
        "scratchpad_bytes": program.content.scratchpad_bytes,
    }
