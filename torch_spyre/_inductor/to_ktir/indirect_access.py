"""Emits accesses to elements that are not a rectangle: their coordinates are computed or loaded."""

from collections.abc import Callable, Mapping

import sympy
from sympy import Symbol
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg, index_names
from torch_spyre._inductor.tiling.access import Access
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.extents import Shape, dynamic, static
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import element_type, tensor_type
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import (
    ConstructIndirectAccessTileOp,
    Subscript,
)
from torch_spyre.ktir.dialects.ktdp.transfers import LoadOp, StoreOp
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType
from torch_spyre.ktir.dialects.ktdp.views import full_box

# Returns the sizes and strides of a tensor's device dims.
DeviceShape = Callable[[TensorArg], tuple[Shape, Shape]]


class IndirectTile:
    """The coordinates of an access at the points of a tile."""

    def __init__(
        self,
        emitter: Emitter,
        bases: Mapping[str, SSAValue],
        access: Access,
        frame: Frame,
        indices: Mapping[str, Access],
        device_shape: DeviceShape,
    ) -> None:
        self.emitter, self.element = emitter, element_type(access.arg.device_dtype)
        symbols = access.symbols | frozenset(
            symbol for name in index_names(access.arg) for symbol in indices[name].symbols
        )
        self.axes = frame.axes_of(symbols)
        assert all(axis.part == "whole" for axis in self.axes)
        self.shape = frame.shape(self.axes)
        # The domain of the affine maps: captured values first, then the variables.
        origins = [frame.origins[axis.symbol] for axis in self.axes]
        captured = [origin.value for origin in origins if origin.value is not None]
        positions: dict[Symbol, AffineExpr] = {}
        next_captured = 0
        for position, (axis, origin) in enumerate(zip(self.axes, origins, strict=True)):
            index = AffineExpr.dimension(len(captured) + position) + origin.offset
            if origin.value is not None:
                index = index + AffineExpr.dimension(next_captured)
                next_captured += 1
            positions[axis.symbol] = index
        subscripts = [
            _subscript(emitter, bases, coordinate, positions, indices, device_shape)
            for coordinate in access.arg.device_coordinates
        ]
        tile = ConstructIndirectAccessTileOp(
            _device_view(emitter, bases, access.arg, device_shape),
            subscripts,
            captured,
            full_box(static(self.shape)),
            AccessTileType(static(self.shape)),
            symbols=dynamic(self.shape),
            variable_names=[axis.symbol.name for axis in self.axes],
        )
        emitter.indices.append(tile)
        self.tile = tile.result

    def gather(self) -> Value:
        """Emit a load of the elements."""
        load = LoadOp(self.tile, tensor_type(self.element, self.shape))
        return Value(self.emitter.add_with_shape(load, self.shape), self.axes)

    def scatter(self, value: Value) -> None:
        """Emit a store to the elements. Of several stores to one element, the last wins."""
        self.emitter.indices.append(StoreOp(value.ssa, self.tile))


def _device_view(
    emitter: Emitter, bases: Mapping[str, SSAValue], arg: TensorArg, device_shape: DeviceShape
) -> SSAValue:
    """Return a view of a whole tensor, in which indexed dims have the number of valid indices.

    That excludes padding, so that indices into padding are out of bounds.
    """
    limits = map(_index_limit, arg.device_coordinates)
    device_size, strides = device_shape(arg)
    sizes = tuple(
        size if limit is None else limit for size, limit in zip(device_size, limits, strict=True)
    )
    element = element_type(arg.device_dtype)
    return emitter.view(bases[parameter_name(arg)], 0, sizes, strides, element)


def _index_limit(coordinate: sympy.Expr) -> int | None:
    """Return the number of valid indices of a coordinate that is read from memory, if known."""
    coordinate = sympy.sympify(coordinate)
    return coordinate.choices if isinstance(coordinate, IndirectAccess) else None


def _subscript(
    emitter: Emitter,
    bases: Mapping[str, SSAValue],
    coordinate: sympy.Expr,
    positions: Mapping[Symbol, AffineExpr],
    indices: Mapping[str, Access],
    device_shape: DeviceShape,
) -> Subscript:
    coordinate = sympy.sympify(coordinate)
    if isinstance(coordinate, IndirectAccess):
        index = indices[coordinate.tensor].arg
        expressions = tuple(_affine(value, positions) for value in index.device_coordinates)
        return Subscript(expressions, _device_view(emitter, bases, index, device_shape))
    return Subscript((_affine(coordinate, positions),))


def _affine(expression: sympy.Expr, positions: Mapping[Symbol, AffineExpr]) -> AffineExpr:
    expression = sympy.sympify(expression)
    if expression.is_Integer:
        return AffineExpr.constant(int(expression))
    if expression.is_Symbol:
        return positions[expression]
    if isinstance(expression, sympy.Add):
        total, *terms = (_affine(term, positions) for term in expression.args)
        for term in terms:
            total = total + term
        return total
    if isinstance(expression, sympy.Mul):
        coefficient, factor = expression.as_coeff_Mul()
        if coefficient.is_Integer:
            return _affine(factor, positions) * int(coefficient)
    if isinstance(expression, sympy.Mod):
        value, modulus = expression.args
        return _affine(value, positions) % int(modulus)
    if isinstance(expression, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
        return _affine(sympy.expand(numerator), positions) // int(denominator)
    raise UnsupportedError(f"an index that is not affine: {expression}")
