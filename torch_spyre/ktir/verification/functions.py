"""The grid of cores that a function runs on."""

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.ktdp.transfers import MAX_GRID_DIMS
from torch_spyre.ktir.suggestions import suggestion

# Far beyond any card; it bounds the cost of checks that enumerate the cores.
_MAX_CORES = 1 << 16


def grid_of(function: FuncOp) -> tuple[int, int, int]:
    """Return the grid of a function. Missing dims are 1; without the attribute it is one core."""
    declared = function.attributes.get("grid")
    for name in function.attributes if declared is None else ():
        if hint := suggestion(name, ["grid"]):
            raise VerifyException(f"unknown attribute {name}{hint}")
    sizes = [] if declared is None else _sizes(declared)
    if declared is not None and not 1 <= len(sizes) <= MAX_GRID_DIMS:
        raise VerifyException(f"grid has 1 to {MAX_GRID_DIMS} dims, not {len(sizes)}")
    if any(size < 1 for size in sizes):
        raise VerifyException(f"every dim of the grid is at least 1, not {sizes}")
    x, y, z = [*sizes, 1, 1, 1][:MAX_GRID_DIMS]
    if x * y * z > _MAX_CORES:
        raise VerifyException(f"a grid of {x * y * z} cores; the limit is {_MAX_CORES}")
    return x, y, z


def _sizes(declared: Attribute) -> list[int]:
    if isinstance(declared, DenseArrayBase):
        return [int(size) for size in declared.get_values()]
    if not isinstance(declared, ArrayAttr):
        raise VerifyException(f"grid is a list of integers, not {declared}")
    sizes = []
    for entry in declared:
        if not isinstance(entry, IntegerAttr):
            raise VerifyException(f"grid is a list of integers, not {declared}")
        sizes.append(entry.value.data)
    return sizes
