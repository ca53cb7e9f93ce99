"""Views of device memory and access tiles, as positions in arrays of bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType

from torch_spyre.errors import KtirError
from torch_spyre.ktir.affine import evaluate_map, is_identity, points
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.interpreter.numbers import Array, decode, encode, num_bytes, type_name

Positions = NDArray[np.int64]

# The distance between the addresses of two arrays, in elements of any view.
_ADDRESS_BITS = 44


class DeviceMemory:
    """The arrays of a kernel. An address selects an array and counts elements of a view in it."""

    def __init__(self, arrays: Sequence[NDArray[np.uint8]]) -> None:
        self.arrays = list(arrays)

    @staticmethod
    def address_of(index: int) -> int:
        """Return the address of the first element of an array."""
        return (index + 1) << _ADDRESS_BITS

    def codes(self, view: "View") -> tuple[Array, int]:
        """Return the array that a view is of, as codes, and the position of its first element."""
        index = ((view.address + (1 << (_ADDRESS_BITS - 1))) >> _ADDRESS_BITS) - 1
        if not 0 <= index < len(self.arrays):
            raise KtirError("the interpreter has no views at fixed addresses")
        bytes = self.arrays[index]
        width = num_bytes(view.element)
        codes: Array = bytes[: bytes.size // width * width].view(f"u{width}")
        return codes, view.address - self.address_of(index)


@dataclass(frozen=True)
class View:
    """A strided view of an array. Address and strides count elements."""

    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: str

    @staticmethod
    def element_of(type: object) -> str:
        assert isinstance(type, MemRefType)
        return type_name(type.element_type)


@dataclass(frozen=True)
class Tile:
    """The coordinates of a view that a transfer accesses, a row for each element."""

    view: View
    coordinates: Positions

    def _positions(self, first: int) -> Positions:
        strides = np.array(self.view.strides, np.int64)
        return np.asarray(first + self.coordinates @ strides, dtype=np.int64)

    def load(self, memory: DeviceMemory) -> Array:
        """Return the elements; those beyond the end of the array are zero."""
        codes, first = memory.codes(self.view)
        positions = self._positions(first)
        self._check(positions)
        is_inside = positions < codes.size
        values = decode(codes[np.where(is_inside, positions, 0)], self.view.element)
        return np.where(is_inside, values, values.dtype.type(0))

    def store(self, memory: DeviceMemory, values: Array) -> None:
        """Write the elements in order; those beyond the end of the array are dropped."""
        codes, first = memory.codes(self.view)
        positions = self._positions(first)
        self._check(positions)
        is_inside = positions < codes.size
        codes[positions[is_inside]] = encode(values.reshape(-1)[is_inside], self.view.element).view(
            codes.dtype
        )

    @staticmethod
    def _check(positions: Positions) -> None:
        if positions.size and int(positions.min()) < 0:
            raise KtirError("an access before the first element of an array")


def direct_tile(operation: ConstructAccessTileOp, values: Mapping[Any, Any]) -> Tile:
    """Return the tile of a view at the values of its indices."""
    if not is_identity(operation.access_tile_order.data):
        raise KtirError("the interpreter has no access_tile_order")
    indices = np.array([[int(values[index]) for index in operation.indices]], np.int64)
    origin = evaluate_map(operation.base_map.data, indices)
    symbols = [int(values[symbol]) for symbol in operation.symbols]
    return Tile(values[operation.base], origin + points(operation.access_tile_set.data, symbols))


def indirect_tile(
    operation: ConstructIndirectAccessTileOp, values: Mapping[Any, Any], memory: DeviceMemory
) -> Tile:
    """Return the tile whose coordinates are expressions, or elements of index views."""
    if not is_identity(operation.variables_space_order.data):
        raise KtirError("the interpreter has no variables_space_order")
    symbols = [int(values[symbol]) for symbol in operation.symbols]
    variables = points(operation.variables_space_set.data, symbols)
    captured = [int(values[value]) for value in operation.captured]
    columns = np.tile(np.array(captured, np.int64), (len(variables), 1))
    space = np.concatenate([columns.reshape(len(variables), -1), variables], axis=1)
    views = iter(operation.index_views)
    coordinates = []
    for is_indirect, subscript in zip(operation.kinds, operation.maps, strict=True):
        evaluated = evaluate_map(subscript, space)
        if is_indirect:
            coordinates.append(Tile(values[next(views)], evaluated).load(memory))
        else:
            coordinates.append(evaluated[:, 0])
    return Tile(values[operation.base], np.stack(coordinates, axis=1).astype(np.int64))
