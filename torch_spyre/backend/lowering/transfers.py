"""Lowers `ktdp.load` and `ktdp.store`, with direct and indirect tiles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from torch_spyre.backend.lowering.boxes import box_of, ordered_points
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import with_strides
from torch_spyre.backend.lowering.nodes import IndirectTile, TileTransfer
from torch_spyre.backend.lowering.values import (
    Extent,
    TensorView,
    max_elements,
    new_tensor,
    row_major,
)
from torch_spyre.backend.lowering.views import DirectTile, TensorTile
from torch_spyre.backend.program.instructions import (
    NO_REGISTER,
    ElementType,
    Expression,
    Subscript,
    Term,
    TermKind,
    View,
)
from torch_spyre.ktir.affine import permutation_of
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import LoadOp, StoreOp

_TERMS = {
    AffineBinaryOpKind.Add: TermKind.ADD,
    AffineBinaryOpKind.Mul: TermKind.MULTIPLY,
    AffineBinaryOpKind.FloorDiv: TermKind.FLOOR_DIVIDE,
    AffineBinaryOpKind.CeilDiv: TermKind.CEIL_DIVIDE,
    AffineBinaryOpKind.Mod: TermKind.MODULO,
}


@dataclass(frozen=True)
class IndexedTile:
    """A tile whose coordinates are computed or read for each point of a space of variables."""

    view: View
    subscripts: tuple[Subscript, ...]
    variables: tuple[Extent, ...]
    order: tuple[int, ...]
    points: tuple[int, ...] = ()

    @property
    def ordered_extents(self) -> tuple[Extent, ...]:
        return tuple(self.variables[dim] for dim in self.order)

    def strides(self) -> tuple[int, ...]:
        by_dim = dict(zip(self.order, row_major(self.ordered_extents), strict=True))
        return tuple(by_dim[dim] for dim in range(len(self.variables)))


def lower_indirect_tile(kernel: KernelContext, operation: ConstructIndirectAccessTileOp) -> None:
    views = kernel.views.get(operation.base, ())
    if len(views) != 1:
        raise kernel.error("the base of an indirect tile must be a single memory view")
    captured = [kernel.scalar(value) for value in operation.captured]
    symbols = [kernel.scalar(value) for value in operation.symbols]
    order = permutation_of(operation.variables_space_order.data)
    assert order is not None, "the verifier rejects other orders"
    space = operation.variables_space_set.data
    box = box_of(kernel, space, symbols)
    points: tuple[int, ...] = ()
    if box is None:
        point_array = ordered_points(kernel, space, symbols, order)
        points = tuple(int(value) for value in point_array.ravel())
        lower: Sequence[int] = [kernel.constant(0)] * space.num_dims
        variables: tuple[Extent, ...] = (kernel.static_extent(len(point_array)),)
        order = (0,)
    else:
        lower = box.lower
        variables = tuple(kernel.extent(size) for size in box.sizes)
    index_views = iter(operation.index_views)
    subscripts = []
    for is_indirect, indexing in zip(operation.kinds, operation.maps, strict=True):
        expressions = tuple(
            _postfix(kernel, expression, captured, lower) for expression in indexing.results
        )
        index = views[0]
        if is_indirect:
            index_view = kernel.views.get(next(index_views), ())
            if len(index_view) != 1:
                raise kernel.error("an index view must be a single memory view")
            # Without extents an index read past the end of its array is 0, as with every load. The
            # index itself is checked.
            index = index_view[0]
            if not kernel.checks_bounds:
                index = replace(index, extents=())
        subscripts.append(Subscript(is_indirect, expressions, index))
    kernel.tiles[operation.result] = IndexedTile(
        views[0], tuple(subscripts), variables, order, points
    )


def _postfix(
    kernel: KernelContext, expression: AffineExpr, captured: list[int], lower: Sequence[int]
) -> Expression:
    """Return an expression in postfix form, over variables that start at 0."""
    match expression:
        case AffineConstantExpr():
            return (Term(TermKind.CONSTANT, expression.value),)
        case AffineDimExpr():
            position = expression.position
            if position < len(captured):
                known = kernel.registers.constant_value(captured[position])
                if known is not None:
                    return (Term(TermKind.CONSTANT, known),)
                return (Term(TermKind.REGISTER, captured[position]),)
            variable = position - len(captured)
            term = Term(TermKind.VARIABLE, variable)
            if kernel.registers.constant_value(lower[variable]) == 0:
                return (term,)
            return (term, Term(TermKind.REGISTER, lower[variable]), Term(TermKind.ADD))
        case AffineBinaryOpExpr():
            left = _postfix(kernel, expression.lhs, captured, lower)
            right = _postfix(kernel, expression.rhs, captured, lower)
            return (*left, *right, Term(_TERMS[expression.kind]))
    raise kernel.error(f"the affine expression {expression} is not supported in a subscript")


def lower_load(kernel: KernelContext, operation: LoadOp) -> None:
    tile = kernel.tiles.get(operation.tile)
    if isinstance(tile, TensorTile):
        view = _tensor_tile_view(kernel, tile)
        _check_element_type(kernel, "tile's tensor", view.type, operation.result)
        kernel.tensors[operation.result] = _to_declared_shape(kernel, view, operation.result)
        return
    assert isinstance(tile, DirectTile | IndexedTile)
    element = _element_type(kernel, tile, operation.result)
    loaded = new_tensor(element, tile.ordered_extents, f"%{operation.result.name_hint or 'load'}")
    _add_transfer(kernel, tile, with_strides(loaded, tile.strides()), store=False)
    kernel.tensors[operation.result] = _to_declared_shape(kernel, loaded, operation.result)


def _element_type(
    kernel: KernelContext, tile: DirectTile | IndexedTile, value: SSAValue
) -> ElementType:
    """Return the element type of a loaded or stored tensor; raise if its views have another."""
    views = tile.views if isinstance(tile, DirectTile) else (tile.view,)
    if views:
        _check_element_type(kernel, "view", views[0].type, value)
    return kernel.element_type(value.type)


def _check_element_type(
    kernel: KernelContext, holder: str, held: ElementType, value: SSAValue
) -> None:
    declared = kernel.element_type(value.type)
    if held is not declared:
        raise kernel.error(
            f"the {holder} holds {held.name.lower()}, the tensor {declared.name.lower()}; loads "
            "and stores do not convert"
        )


def _to_declared_shape(kernel: KernelContext, loaded: TensorView, value: SSAValue) -> TensorView:
    """Return a loaded tensor with its declared shape; row-major order is preserved."""
    assert isinstance(value.type, TensorType)
    same_rank = value.type.get_num_dims() == len(loaded.extents)
    extents = kernel.extents_of(value.type, loaded.extents if same_rank else None)
    if extents == loaded.extents:
        return loaded
    is_static = all(extent.is_static for extent in (*extents, *loaded.extents))
    if not is_static or max_elements(extents) != max_elements(loaded.extents):
        raise kernel.error(
            f"a tile of {max_elements(loaded.extents)} points and a tensor of "
            f"{max_elements(extents)} elements; the numbers must be static and equal"
        )
    return kernel.reshape(loaded, extents)


def _tensor_tile_view(kernel: KernelContext, tensor_tile: TensorTile) -> TensorView:
    source = kernel.to_buffer(kernel.tensor(tensor_tile.tensor))
    tile = tensor_tile.tile
    if tile.points:
        raise kernel.error("a tile of a tensor must be a box")
    offset, register = source.offset, source.offset_register
    for start, stride in zip(tile.anchor, source.strides, strict=True):
        distance = kernel.compute_index("muli", start, kernel.constant(stride))
        known = kernel.registers.constant_value(distance)
        if known is not None:
            offset += known
        elif register == NO_REGISTER:
            register = distance
        else:
            register = kernel.compute_index("addi", register, distance)
    return replace(
        source,
        extents=tile.ordered_extents,
        strides=tuple(source.strides[dim] for dim in tile.order),
        offset=offset,
        offset_register=register,
    )


def lower_store(kernel: KernelContext, operation: StoreOp) -> None:
    tile = kernel.tiles.get(operation.tile)
    if isinstance(tile, TensorTile):
        raise kernel.error("tensors are values and cannot be stored to")
    assert isinstance(tile, DirectTile | IndexedTile)
    _element_type(kernel, tile, operation.value)
    value = kernel.to_buffer(kernel.tensor(operation.value), operation.value)
    ordered_extents = tile.ordered_extents
    if max_elements(value.extents) != max_elements(ordered_extents):
        raise kernel.error(
            f"a tensor of {max_elements(value.extents)} elements and a tile of "
            f"{max_elements(ordered_extents)} points; the numbers must be equal"
        )
    if value.extents != ordered_extents:
        value = kernel.reshape(value, ordered_extents)
    # The transfer uses the strides of the value, so a transposed or sliced one is not copied first.
    by_dim = dict(zip(tile.order, value.strides, strict=True))
    strides = tuple(by_dim[dim] for dim in range(len(ordered_extents)))
    _add_transfer(kernel, tile, with_strides(value, strides), store=True)


def _add_transfer(
    kernel: KernelContext, tile: DirectTile | IndexedTile, tensor: TensorView, *, store: bool
) -> None:
    if isinstance(tile, DirectTile) and kernel.checks_bounds and _is_plain_view(tile):
        tile = _with_checked_coordinates(kernel, tile)
    if isinstance(tile, DirectTile):
        kernel.add(
            TileTransfer(
                kernel.location, store, tensor, tile.extents, tile.anchor, tile.views, tile.points
            )
        )
    else:
        kernel.add(
            IndirectTile(
                kernel.location,
                store,
                tensor,
                tile.variables,
                tile.view,
                tile.subscripts,
                tile.points,
            )
        )


def _with_checked_coordinates(kernel: KernelContext, tile: DirectTile) -> IndexedTile:
    """Return a tile with the coordinate of each element as a subscript, which the card checks."""
    (view,) = tile.views
    subscripts = []
    for dim, start in enumerate(tile.anchor):
        known = kernel.registers.constant_value(start)
        term = Term(TermKind.REGISTER, start) if known is None else Term(TermKind.CONSTANT, known)
        coordinate = (Term(TermKind.VARIABLE, dim), term, Term(TermKind.ADD))
        subscripts.append(Subscript(False, (coordinate,), view))
    return IndexedTile(view, tuple(subscripts), tile.extents, tile.order, tile.points)


def _is_plain_view(tile: DirectTile) -> bool:
    """Return whether a tile is of one view; those of distributed views are always checked."""
    return len(tile.views) == 1 and not tile.views[0].lower
