"""The ops of `tensor` and `linalg` on NumPy arrays."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, Region

from torch_spyre.errors import KtirError
from torch_spyre.ktir.affine import evaluate
from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp
from torch_spyre.ktir.dialects.spyreop import SortOp
from torch_spyre.ktir.interpreter.numbers import Array, rounded, type_name

# Runs a region on values of its arguments, and returns what it yields.
RunRegion = Callable[[Region, Sequence[Any]], list[Any]]
# Reductions that are computed as one, and not element by element.
_WHOLE_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add.reduce,
    "arith.addi": np.add.reduce,
    "arith.mulf": np.multiply.reduce,
    "arith.muli": np.multiply.reduce,
    "arith.maximumf": np.maximum.reduce,
    "arith.minimumf": np.minimum.reduce,
    "arith.maxsi": np.maximum.reduce,
    "arith.minsi": np.minimum.reduce,
}


def element_name(type: Attribute) -> str:
    """Return the element type of a tensor, or the type of a scalar."""
    return type_name(type.element_type if isinstance(type, TensorType) else type)


def shape_of(type: Attribute) -> tuple[int, ...]:
    assert isinstance(type, TensorType)
    shape = tuple(type.get_shape())
    if DYNAMIC_INDEX in shape:
        raise KtirError("the interpreter has no tensors of dynamic shape")
    return shape


def constant(value: Attribute, type: Attribute) -> Array:
    """Return the value of `arith.constant`."""
    name = element_name(type)
    if isinstance(value, DenseIntOrFPElementsAttr):
        values = np.array(value.get_values()).reshape(-1)
        return np.broadcast_to(rounded(values, name), shape_of(type))
    assert isinstance(value, FloatAttr | IntegerAttr)
    return rounded(np.asarray(value.value.data), name)


def slice_of(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[slice, ...]:
    return tuple(
        slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )


def reduce(operation: Operation, operands: Sequence[Array], dims: Sequence[int]) -> Array:
    """Reduce dims of a tensor with the op of the region, starting with the initial value."""
    value, initial = operands
    combiner = operation.regions[0].block.first_op
    assert combiner is not None
    name = element_name(operation.results[0].type)
    function = _WHOLE_REDUCTIONS.get(combiner.name)
    if function is None:
        raise KtirError(f"the interpreter has no reduction with {combiner.name}")
    axes = tuple(dims)
    with np.errstate(all="ignore"):
        total = function(value, axis=axes) if axes else value
        combined = function(np.stack(np.broadcast_arrays(total, initial)), axis=0)
    return rounded(combined, name)


def sort(operation: SortOp, operands: Sequence[Array]) -> list[Array]:
    """Return keys and their indices, sorted along the last dim; equal keys by their indices."""
    keys, indices, *first = operands
    if operation.descending is None:
        order = np.lexsort((indices, keys), -1)
    else:
        # The last of equal elements first, then all in reverse.
        order = np.lexsort((-indices, keys), -1)[..., ::-1]
    begin = int(first[0]) if first else 0
    kept = order[..., begin : begin + shape_of(operation.sorted_keys.type)[-1]]
    return [np.take_along_axis(array, kept, -1) for array in (keys, indices)]


def indexed(operation: GatherOp | ScatterOp, operands: Sequence[Array]) -> Array:
    """Gather elements of a table, or scatter values one after the other, at indices of a dim."""
    # Both ops have the table or values first, then indices.
    source, index, into, first, *_ = operands
    dim, result = operation.dim.value.data, np.array(into)
    scatter = operation if isinstance(operation, ScatterOp) else None
    is_scatter = scatter is not None
    length = (result if is_scatter else source).shape[dim]
    combine = scatter.combine.data if scatter is not None and scatter.combine is not None else ""
    name = element_name(operation.result.type)
    for point in np.ndindex(index.shape):
        selected = int(index[point])
        if not 0 <= selected < operation.size.value.data:
            raise KtirError(f"index {selected} is out of range")
        if not 0 <= selected - int(first) < length:
            continue
        element = (*point[:dim], selected - int(first), *point[dim + 1 :])
        if not is_scatter:
            result[point] = source[element]
        elif not combine:
            result[element] = source[point]
        else:
            function = _WHOLE_REDUCTIONS[f"arith.{combine}"]
            with np.errstate(all="ignore"):
                result[element] = rounded(function([result[element], source[point]]), name)
    return result


def matmul(operation: Operation, operands: Sequence[Array]) -> Array:
    """Return `out + A B`, rounded once."""
    left, right, initial = operands
    with np.errstate(all="ignore"):
        return rounded(initial + np.matmul(left, right), element_name(operation.results[0].type))


def generic(
    operation: GenericOp, inputs: Sequence[Array], outputs: Sequence[Array], run: RunRegion
) -> list[Array]:
    """Run the body of a `linalg.generic` at all points, in order along its reduced dims.

    `run` receives the arguments, and then the index along each dim.
    """
    maps = [attribute.data for attribute in operation.indexing_maps]
    kinds = [iterator.data for iterator in operation.iterator_types]
    sizes = _loop_sizes(operation.indexing_maps.data, [*inputs, *outputs], len(kinds))
    reduced = [dim for dim, kind in enumerate(kinds) if kind is IteratorType.REDUCTION]
    results = [np.array(output) for output in outputs]
    for point in itertools.product(*(range(sizes[dim]) for dim in reduced)):
        fixed = dict(zip(reduced, point, strict=True))
        grid = [
            np.asarray(fixed[dim]) if dim in fixed else _axis(sizes, dim, reduced)
            for dim in range(len(kinds))
        ]
        arguments = [
            array[tuple(np.asarray(evaluate(e, grid)) for e in map.results)]
            if map.results
            else array
            for array, map in zip([*inputs, *results], maps, strict=True)
        ]
        yielded = run(operation.body, [*arguments, *grid])
        for result, value, map in zip(results, yielded, maps[len(inputs) :], strict=True):
            index = tuple(np.asarray(evaluate(e, grid)) for e in map.results)
            result[index] = value
    return results


def _axis(sizes: Sequence[int], dim: int, reduced: Sequence[int]) -> Array:
    """Return the indices along a dim, as an array that broadcasts with those of other dims."""
    parallel = [other for other in range(len(sizes)) if other not in reduced]
    shape = [sizes[dim] if other == dim else 1 for other in parallel]
    return np.arange(sizes[dim]).reshape(shape)


def _loop_sizes(maps: Sequence[AffineMapAttr], arrays: Sequence[Array], rank: int) -> list[int]:
    """Return the size of each dim, from the tensors whose maps name it."""
    sizes = [1] * rank
    for attribute, array in zip(maps, arrays, strict=True):
        for position, expression in enumerate(attribute.data.results):
            for dim in range(rank):
                unit = [int(other == dim) for other in range(rank)]
                if evaluate(expression, unit) == 1 and evaluate(expression, [0] * rank) == 0:
                    sizes[dim] = array.shape[position]
    return sizes
