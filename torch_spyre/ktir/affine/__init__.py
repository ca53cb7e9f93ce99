"""Evaluate and bound affine expressions, maps and sets; test membership; enumerate points.

The structures themselves (AffineExpr, AffineMap, AffineSet) are xDSL's.
"""

from torch_spyre.ktir.affine.expressions import evaluate
from torch_spyre.ktir.affine.maps import (
    canonical_operands,
    evaluate_map,
    is_identity,
    permutation_of,
)
from torch_spyre.ktir.affine.sets import (
    as_box,
    bind_symbols,
    bounds,
    box_set,
    contains,
    count_points,
    points,
)

__all__ = [
    "as_box",
    "bind_symbols",
    "bounds",
    "box_set",
    "canonical_operands",
    "contains",
    "count_points",
    "evaluate",
    "evaluate_map",
    "is_identity",
    "permutation_of",
    "points",
]
