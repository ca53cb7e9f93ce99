"""The interface between the compiler and an op that is several loops in one kernel.

Its lowering creates a reduction with a reduction type of its own: a loop over all points of the
result and all reduced points, whose inner function returns a tuple of the loaded elements, followed
by constants. The passes treat that loop as one op. Where they need more than its reads and its
write, they call the `MultiLoopOp` that is registered for the reduction type.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from sympy import Symbol

if TYPE_CHECKING:
    import torch

    from torch_spyre._inductor.layouts.graph import LayoutOp
    from torch_spyre._inductor.layouts.sticks import StickCandidate
    from torch_spyre._inductor.loop_ir import LoopOp
    from torch_spyre._inductor.multi_loop.roles import LoopRoles
    from torch_spyre._inductor.op_spec import OpSpec
    from torch_spyre._inductor.superdsc.json_fields import Field
    from torch_spyre._inductor.tiling.iteration_space import IterationSpace
    from torch_spyre._inductor.tiling.tile_plan import TilePlan
    from torch_spyre._inductor.to_ktir.context import KernelContext
    from torch_spyre._inductor.to_ktir.tiles import Frame
    from torch_spyre._inductor.verification.bounds import Bounds
    from torch_spyre._inductor.verification.positions import Grid


class MultiLoopOp(ABC):
    """An op of several loops, as the passes and the emitter see it."""

    # The overload that the lowering is registered for; None if lowerings of several ops use it.
    overload: ClassVar["torch._ops.OpOverload | None"]
    # The kinds of loops that belong to the op: the reduction types of its lowering, and the names
    # of its OpSpecs. Results after the first are by-products that the same kernel can compute.
    names: ClassVar[tuple[str, ...]]
    # The constants that follow the tensors in the tuples of the inner functions.
    constants: ClassVar[tuple[str, ...]]
    # The symbol of the traced loop in each role: `c<n>` for dim n of the result, `r<n>` for reduced
    # dims. Alignment can split them; `op_info` of a spec records the parts (`LoopRoles`).
    roles: ClassVar[Mapping[str, str]]
    # Whether `emit_tile` accepts frames with extents that are known at launch.
    supports_dynamic_sizes: ClassVar[bool] = False

    @abstractmethod
    def stick_candidates(self, op: "LayoutOp") -> Sequence["StickCandidate"]:
        """Return the sticks of the result and of the reads that the op supports, best first."""

    @abstractmethod
    def can_merge(self, group: Sequence["LoopOp"], op: "LoopOp") -> bool:
        """Return whether one kernel computes `group`, loops of this op, and also `op`.

        `op` is a loop of this or of another multi-loop op; no other loops are fused with these.
        """

    @abstractmethod
    def core_splits(
        self, specs: Sequence["OpSpec"], space: "IterationSpace", cores: int
    ) -> Mapping[Symbol, int]:
        """Return into how many slices each symbol is split; their product is at most `cores`."""

    @abstractmethod
    def plan_tiles(self, specs: Sequence["OpSpec"], budget: int) -> "TilePlan | None":
        """Return tiles that use at most `budget` bytes of LX; None if there are none.

        The kernel loops over the tiles of all symbols that are not streamed. `emit_tile` emits the
        loops over the streamed ones.
        """

    @abstractmethod
    def emit_tile(self, kernel: "KernelContext", frame: "Frame") -> None:
        """Emit the instructions for one tile, from the loads to the stores of all results."""

    def enclose(
        self, spec: "OpSpec", operands: Sequence["Bounds"], grid: "Grid"
    ) -> "Bounds | None":
        """Return bounds of the result before it is rounded, computed independently of `emit_tile`.

        The dims of the operands and of the result are those of the iteration space. Floats are then
        rounded to float32 and to the format of the output. Without an implementation, results of
        the op are not verified, and TORCH_SPYRE_VERIFY says so.
        """
        return None

    def index_strides(self, spec: "OpSpec") -> Mapping[int, Sequence[int]]:
        """Return host strides of index tensors, for errors that name the index; see `ProgramOp`."""
        return {}

    @abstractmethod
    def check_op_info(
        self, spec: "OpSpec", roles: "LoopRoles", info: "Field", dsc: "Field"
    ) -> None:
        """Check a spec that was read from a file against its tensors.

        `roles` are well-formed; `info` is the field of the roles and `dsc` that of the whole op,
        whose `fail` raises an error with the location in the file.
        """
