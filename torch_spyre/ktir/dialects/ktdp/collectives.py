"""The four collectives that upstream specifies but does not implement.

C is the number of consumers of a group and P the number of producers a consumer receives from.
Result shapes depend on both; `verification/communication.py`, which has the grid, checks them.
"""

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.traits import Pure, RecursiveMemoryEffect

from torch_spyre.ktir.dialects.ktdp.delivery import DeliveryOperation, ReductionOperation


@irdl_op_definition
class InterTileReduceScatterOp(ReductionOperation):
    """Reduces the partials of a group and delivers one of C slices to each consumer."""

    name = "ktdp.inter_tile_reduce_scatter"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("scatter_dimensions",)

    scatter_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(RecursiveMemoryEffect())

    def verify_(self) -> None:
        self.verify_delivery()
        self.verify_combiner()


@irdl_op_definition
class InterTileGatherOp(DeliveryOperation):
    """Delivers to each consumer the partials of P producers, concatenated by core id."""

    name = "ktdp.inter_tile_gather"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("gather_dimensions",)

    gather_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()


@irdl_op_definition
class InterTileAllToAllOp(DeliveryOperation):
    """Delivers to each consumer its slice of every producer's partial, concatenated."""

    name = "ktdp.inter_tile_all_to_all"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("split_dimensions", "concat_dimensions")

    split_dimensions = prop_def(DenseArrayBase.constr(i64))
    concat_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()


@irdl_op_definition
class InterTileScatterOp(DeliveryOperation):
    """Delivers to each consumer one of C slices of the single producer's partial."""

    name = "ktdp.inter_tile_scatter"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("scatter_dimensions",)
    HAS_DEPENDENCY: ClassVar[bool] = False

    scatter_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()
