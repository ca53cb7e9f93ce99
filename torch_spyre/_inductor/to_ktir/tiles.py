"""Values of a kernel: tensors in the scratchpad whose dims are symbols of the iteration space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sympy import Symbol
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.to_ktir.emitter import shape_of
from torch_spyre._inductor.to_ktir.extents import Shape, Size
from torch_spyre._inductor.to_ktir.indices import Index


@dataclass(frozen=True)
class Value:
    """A tensor, or a scalar that is the same at every point (no axes, no tensor type)."""

    ssa: SSAValue
    axes: tuple[Axis, ...]

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.ssa.type, TensorType)

    @property
    def element(self) -> Attribute:
        ssa_type = self.ssa.type
        return ssa_type.element_type if isinstance(ssa_type, TensorType) else ssa_type

    @property
    def shape(self) -> Shape:
        return () if self.is_scalar else shape_of(self.ssa)


@dataclass(frozen=True)
class Frame:
    """The part of the iteration space that the current tile covers, and the order of its axes."""

    origins: Mapping[Symbol, Index]
    extents: Mapping[Symbol, Size]
    # The number of elements that belong to the tensors; the others pad the last stick.
    valid: Mapping[Symbol, Size]
    axes: Sequence[Axis]
    stick: int = 0

    def extent(self, axis: Axis) -> Size:
        whole = self.extents[axis.symbol]
        match axis.part:
            case "stick":
                return whole // self.stick
            case "lane":
                return self.stick
        return whole

    def shape(self, axes: Sequence[Axis]) -> Shape:
        return tuple(self.extent(axis) for axis in axes)

    def axes_of(self, symbols: frozenset[Symbol]) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.symbol in symbols)
