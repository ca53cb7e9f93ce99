"""Values of a kernel: tensors in the scratchpad whose dims are symbols of the iteration space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sympy import Symbol
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from torch_spyre._inductor.tiling.axis import Axis
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
        found = self.ssa.type
        return found.element_type if isinstance(found, TensorType) else found

    @property
    def shape(self) -> tuple[int, ...]:
        found = self.ssa.type
        return found.get_shape() if isinstance(found, TensorType) else ()


@dataclass(frozen=True)
class Frame:
    """Which part of the iteration space the current tile is, and the order of axes in it."""

    origins: Mapping[Symbol, Index]
    extents: Mapping[Symbol, int]
    # Of these elements only so many belong to the tensors: the rest fills their last stick.
    valid: Mapping[Symbol, int]
    axes: Sequence[Axis]
    stick: int = 0

    def extent(self, axis: Axis) -> int:
        whole = self.extents[axis.symbol]
        match axis.part:
            case "stick":
                return whole // self.stick
            case "lane":
                return self.stick
        return whole

    def shape(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        return tuple(self.extent(axis) for axis in axes)

    def axes_of(self, symbols: frozenset[Symbol]) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.symbol in symbols)
