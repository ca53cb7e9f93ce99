"""The way of a bundle from loops to OpSpecs: one table of passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.passes.dead_code import eliminate_dead_code
from torch_spyre._inductor.passes.empty_tensors import simplify_empty
from torch_spyre._inductor.passes.fusion import fuse
from torch_spyre._inductor.passes.indirect_access import enforce_indirect_layouts
from torch_spyre._inductor.passes.layouts import propagate_layouts
from torch_spyre._inductor.passes.loop_splitting import cut_long_loops
from torch_spyre._inductor.passes.op_specs import specs_of
from torch_spyre._inductor.passes.work_division import divided
from torch_spyre._inductor.to_ktir.attention_tiles import is_attention
from torch_spyre._inductor.to_ktir.plan import plan_tiles, tile_budget
from torch_spyre.errors import UnsupportedError


@dataclass(frozen=True)
class Pass:
    name: str
    purpose: str
    run: Callable[[Bundle], Bundle]


def _cores_for(bundle: Bundle, ops: Sequence[LoopOp]) -> int:
    """Cores that would have work if the ops were one program; 0 if its tiles do not fit."""
    try:
        specs = divided(specs_of(bundle, ops), bundle.card)
        if is_attention(specs):
            return specs[0].cores
        plan = plan_tiles(specs, tile_budget(bundle.card))
        return specs[0].cores if plan is not None else 0
    except UnsupportedError:
        return 0


def _fuse(bundle: Bundle) -> Bundle:
    return fuse(bundle, _cores_for)


def _make_specs(bundle: Bundle) -> Bundle:
    return replace(bundle, stages=tuple(specs_of(bundle, group) for group in bundle.groups))


def _divide(bundle: Bundle) -> Bundle:
    return replace(bundle, stages=tuple(divided(specs, bundle.card) for specs in bundle.stages))


def _validate(bundle: Bundle) -> Bundle:
    for specs in bundle.stages:
        validate(specs, bundle.card.compute.cores)
    return bundle


# Still to come, at these places: hints and coarse tiling before fusion, since tiles decide what
# fits; scratchpad planning after work division, when a core's share of each tensor is known.
PASSES = (
    Pass("dead code", "drop loops whose results nobody sees", eliminate_dead_code),
    Pass("empty", "drop loops over nothing; folding nothing gives a constant", simplify_empty),
    Pass("layouts", "give each tensor a layout; copy where sticks clash", propagate_layouts),
    Pass("indirect access", "copy tables whose indexed dim is the stick", enforce_indirect_layouts),
    Pass("fusion", "group loops whose intermediates can stay in the scratchpad", _fuse),
    Pass("parts", "cut loops that would reach too far in a tensor", cut_long_loops),
    Pass("specs", "make an OpSpec of each operation, on aligned symbols", _make_specs),
    Pass("work division", "split the symbols over cores", _divide),
    Pass("validation", "check what must hold of every spec", _validate),
)


def run_passes(bundle: Bundle) -> Bundle:
    for each in PASSES:
        bundle = each.run(bundle)
    return bundle
