"""`ktdp.load` and `ktdp.store`, direct and through indices."""

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

from torch_spyre.backend.lowering.boxes import box_of, points_of
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import with_strides
from torch_spyre.backend.lowering.nodes import IndirectTile, TileTransfer
from torch_spyre.backend.lowering.values import (
    Extent,
    TensorView,
    count,
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
    """A tile of coordinates that are computed or read for each point of a space of variables."""

    view: View
    subscripts: tuple[Subscript, ...]
    variables: tuple[Extent, ...]
    order: tuple[int, ...]
    points: tuple[int, ...] = ()

    @property
    def walked(self) -> tuple[Extent, ...]:
        return tuple(self.variables[dim] for dim in self.order)

    def strides(self) -> tuple[int, ...]:
        by_dim = dict(zip(self.order, row_major(self.walked), strict=True))
        return tuple(by_dim[dim] for dim in range(len(self.variables)))


def lower_indirect_tile(kernel: KernelContext, operation: ConstructIndirectAccessTileOp) -> None:
    views = kernel.views.get(operation.base, ())
    if len(views) != 1:
        raise kernel.error("an indirect tile needs one plain view as its base")
    captured = [kernel.scalar(value) for value in operation.captured]
    symbols = [kernel.scalar(value) for value in operation.symbols]
    order = permutation_of(operation.variables_space_order.data)
    assert order is not None, "the verifier refuses other orders"
    space = operation.variables_space_set.data
    box = box_of(kernel, space, symbols)
    points: tuple[int, ...] = ()
    if box is None:
        listed = points_of(kernel, space, symbols)
        walked = listed[:, list(order)]
        listed = listed[sorted(range(len(listed)), key=lambda row: tuple(walked[row]))]
        points = tuple(int(value) for value in listed.ravel())
        lower: Sequence[int] = [kernel.constant(0)] * space.num_dims
        variables: tuple[Extent, ...] = (kernel.static_extent(len(listed)),)
        order = (0,)
    else:
        lower = box.lower
        variables = tuple(kernel.extent(size) for size in box.sizes)
    index_views = iter(operation.index_views)
    subscripts = []
    for indirect, found in zip(operation.kinds, operation.maps, strict=True):
        expressions = tuple(
            _postfix(kernel, expression, captured, lower) for expression in found.results
        )
        index = views[0]
        if indirect:
            index_view = kernel.views.get(next(index_views), ())
            if len(index_view) != 1:
                raise kernel.error("an index view must be one plain view")
            # No extents: an index past its array is 0, as with every load. Its value is checked.
            index = replace(index_view[0], extents=())
        subscripts.append(Subscript(indirect, expressions, index))
    kernel.tiles[operation.result] = IndexedTile(
        views[0], tuple(subscripts), variables, order, points
    )


def _postfix(
    kernel: KernelContext, expression: AffineExpr, captured: list[int], lower: Sequence[int]
) -> Expression:
    """The expression over variables that count from 0."""
    match expression:
        case AffineConstantExpr():
            return (Term(TermKind.CONSTANT, expression.value),)
        case AffineDimExpr():
            position = expression.position
            if position < len(captured):
                known = kernel.registers.known(captured[position])
                if known is not None:
                    return (Term(TermKind.CONSTANT, known),)
                return (Term(TermKind.REGISTER, captured[position]),)
            variable = position - len(captured)
            term = Term(TermKind.VARIABLE, variable)
            if kernel.registers.known(lower[variable]) == 0:
                return (term,)
            return (term, Term(TermKind.REGISTER, lower[variable]), Term(TermKind.ADD))
        case AffineBinaryOpExpr():
            left = _postfix(kernel, expression.lhs, captured, lower)
            right = _postfix(kernel, expression.rhs, captured, lower)
            return (*left, *right, Term(_TERMS[expression.kind]))
    raise kernel.error(f"cannot compute {expression}")


def lower_load(kernel: KernelContext, operation: LoadOp) -> None:
    tile = kernel.tiles.get(operation.tile)
    if isinstance(tile, TensorTile):
        part = _tile_of_tensor(kernel, tile)
        _verify_type(kernel, "tile's tensor", part.type, operation.result)
        kernel.tensors[operation.result] = _as_declared(kernel, part, operation.result)
        return
    assert isinstance(tile, DirectTile | IndexedTile)
    element = _element_type(kernel, tile, operation.result)
    loaded = new_tensor(element, tile.walked, f"%{operation.result.name_hint or 'load'}")
    in_place = with_strides(loaded, tile.strides())
    _move(kernel, tile, in_place, store=False)
    kernel.tensors[operation.result] = _as_declared(kernel, loaded, operation.result)


def _element_type(
    kernel: KernelContext, tile: DirectTile | IndexedTile, value: SSAValue
) -> ElementType:
    views = tile.views if isinstance(tile, DirectTile) else (tile.view,)
    if views:
        _verify_type(kernel, "view", views[0].type, value)
    return kernel.element_type(value.type)


def _verify_type(kernel: KernelContext, what: str, held: ElementType, value: SSAValue) -> None:
    declared = kernel.element_type(value.type)
    if held is not declared:
        raise kernel.error(
            f"the {what} holds {held.name.lower()}, the tensor {declared.name.lower()}"
        )


def _as_declared(kernel: KernelContext, loaded: TensorView, value: SSAValue) -> TensorView:
    """Elements in the order of the walk fill the declared shape row by row."""
    assert isinstance(value.type, TensorType)
    same_rank = value.type.get_num_dims() == len(loaded.extents)
    extents = kernel.shape_of(value.type, loaded.extents if same_rank else None)
    if extents == loaded.extents:
        return loaded
    known = all(extent.known for extent in (*extents, *loaded.extents))
    if not known or count(extents) != count(loaded.extents):
        raise kernel.error(
            f"a tile of {count(loaded.extents)} points and a tensor of {count(extents)} elements"
        )
    return kernel.in_shape(loaded, extents)


def _tile_of_tensor(kernel: KernelContext, found: TensorTile) -> TensorView:
    source = kernel.in_memory(kernel.tensor(found.tensor))
    tile = found.tile
    if tile.points:
        raise kernel.error("a tile of a tensor must be a box")
    offset, register = source.offset, source.offset_register
    for start, stride in zip(tile.anchor, source.strides, strict=True):
        moved = kernel.integer("muli", start, kernel.constant(stride))
        known = kernel.registers.known(moved)
        if known is not None:
            offset += known
        elif register == NO_REGISTER:
            register = moved
        else:
            register = kernel.integer("addi", register, moved)
    return replace(
        source,
        extents=tile.walked,
        strides=tuple(source.strides[dim] for dim in tile.order),
        offset=offset,
        offset_register=register,
    )


def lower_store(kernel: KernelContext, operation: StoreOp) -> None:
    tile = kernel.tiles.get(operation.tile)
    if isinstance(tile, TensorTile):
        raise kernel.error("tensors are values: nothing can be stored in one")
    assert isinstance(tile, DirectTile | IndexedTile)
    _element_type(kernel, tile, operation.value)
    value = kernel.in_memory(kernel.tensor(operation.value), operation.value)
    walked = tile.walked
    if count(value.extents) != count(walked):
        raise kernel.error(
            f"a tensor of {count(value.extents)} elements and a tile of {count(walked)} points"
        )
    if value.extents != walked:
        value = kernel.in_shape(value, walked)
    # As it lies: a transposed or sliced value needs no copy first.
    by_dim = dict(zip(tile.order, value.strides, strict=True))
    strides = tuple(by_dim[dim] for dim in range(len(walked)))
    _move(kernel, tile, with_strides(value, strides), store=True)


def _move(
    kernel: KernelContext, tile: DirectTile | IndexedTile, tensor: TensorView, *, store: bool
) -> None:
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
