"""The four delivery ops that exist upstream as a design only: split, concatenate, permute.

C is the number of consumers of a group and P the number of producers a consumer reads. How the
shapes follow from them is checked where the grid is known, in `verification/communication.py`.
"""

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.traits import Pure, RecursiveMemoryEffect

from torch_spyre.ktir.dialects.ktdp.delivery import DeliveryOperation, FoldingOperation


@irdl_op_definition
class InterTileReduceScatterOp(FoldingOperation):
    """Folds the contributions of a group and gives each consumer one of C slices."""

    name = "ktdp.inter_tile_reduce_scatter"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("scatter_dimensions",)

    scatter_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(RecursiveMemoryEffect())

    def verify_(self) -> None:
        self.verify_delivery()
        self.verify_combiner()


@irdl_op_definition
class InterTileGatherOp(DeliveryOperation):
    """Gives each consumer the contributions of P producers, concatenated in order of core id."""

    name = "ktdp.inter_tile_gather"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("gather_dimensions",)

    gather_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()


@irdl_op_definition
class InterTileAllToAllOp(DeliveryOperation):
    """Gives each consumer its slice of every producer's contribution, concatenated."""

    name = "ktdp.inter_tile_all_to_all"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("split_dimensions", "concat_dimensions")

    split_dimensions = prop_def(DenseArrayBase.constr(i64))
    concat_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()


@irdl_op_definition
class InterTileScatterOp(DeliveryOperation):
    """Gives each consumer one of C slices of the only producer's contribution."""

    name = "ktdp.inter_tile_scatter"

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("scatter_dimensions",)
    TAKES_DEPENDENCY: ClassVar[bool] = False

    scatter_dimensions = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()
