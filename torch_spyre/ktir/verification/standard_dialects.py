"""Verify the rules of `tensor`, `linalg` and `scf` that xDSL's verifiers do not check.

A text that breaks one of them would be miscompiled.
"""

from collections.abc import Sequence

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp, GenericOp, IndexOp, ReduceOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.tensor import ExpandShapeOp

_Shape = Sequence[int]


def verify_standard_dialects(operation: Operation) -> None:
    """Verify an op before its own verifier runs, which may assume these rules."""
    match operation:
        case tensor.EmptyOp():
            num_dynamic = list(_tensor(operation.tensor).get_shape()).count(DYNAMIC_INDEX)
            _verify_count("sizes", len(operation.dynamic_sizes), num_dynamic, "dims `?`")
        case tensor.FromElementsOp():
            expected = _tensor(operation.result).element_count()
            _verify_count("elements", len(operation.elements), expected, "elements of its result")
        case tensor.ExtractOp():
            _verify_indices(operation.indices, operation.tensor)
        case tensor.InsertOp():
            _verify_indices(operation.indices, operation.dest)
        case tensor.ExtractSliceOp():
            _verify_slice(operation, operation.source, operation.result)
        case tensor.InsertSliceOp():
            _verify_slice(operation, operation.dest, operation.source)
        case TransposeOp():
            rank = _tensor(operation.inputs[0]).get_num_dims()
            order = list(operation.permutation.get_values())
            if sorted(order) != list(range(rank)):
                raise VerifyException(f"{order} is not a permutation of {rank} dims")
            _verify_element_types(operation.inputs[0], operation.outputs[0])
        case BroadcastOp():
            _verify_element_types(operation.input, operation.init)
            _verify_broadcast(operation)
        case tensor.CollapseShapeOp() | ExpandShapeOp() | tensor.ReshapeOp() | tensor.CastOp():
            _verify_element_types(operation.operands[0], operation.results[0])
        case ReduceOp():
            rank = _tensor(operation.input).get_num_dims()
            dims = list(operation.dimensions.get_values())
            if len(set(dims)) != len(dims) or any(not 0 <= dim < rank for dim in dims):
                raise VerifyException(
                    f"dimensions {dims} of a tensor of {rank} dims must be distinct and in range"
                )
            _verify_yield(operation.region, [_element_type(operation.init)])
        case LinalgStructuredOperation():
            _verify_results(operation)
            if isinstance(operation, GenericOp):
                _verify_yield(operation.body, [_element_type(value) for value in operation.outputs])
        case IndexOp():
            _verify_index(operation)
        case scf.IfOp():
            _verify_branches(operation)


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    if not isinstance(value.type, TensorType):
        raise VerifyException(f"works on tensors, not on {value.type}")
    return value.type


def _element_type(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def _verify_element_types(before: SSAValue, after: SSAValue) -> None:
    if _element_type(before) != _element_type(after):
        raise VerifyException(f"{before.type} and {after.type} have different element types")


def _verify_broadcast(operation: BroadcastOp) -> None:
    shape = _tensor(operation.init).get_shape()
    added = list(operation.dimensions.get_values())
    if len(set(added)) != len(added) or any(not 0 <= dim < len(shape) for dim in added):
        raise VerifyException(
            f"dimensions {added} of a tensor of {len(shape)} dims must be distinct and in range"
        )
    remaining_sizes = [size for dim, size in enumerate(shape) if dim not in added]
    if not _are_compatible(_tensor(operation.input).get_shape(), remaining_sizes):
        before, after = operation.input.type, operation.init.type
        raise VerifyException(f"{before} is not {after} without its dimensions {added}")


def _verify_results(operation: LinalgStructuredOperation) -> None:
    """Verify that results have the types of the outs, where both are static."""
    for result, out in zip(operation.res, operation.outputs, strict=False):
        is_same_shape = _are_compatible(_tensor(out).get_shape(), _tensor(result).get_shape())
        if not is_same_shape or _element_type(out) != _element_type(result):
            raise VerifyException(f"the result is {result.type}, and the outs are {out.type}")


def _are_compatible(left: _Shape, right: _Shape) -> bool:
    """Return whether two shapes are equal where both are static."""
    return len(left) == len(right) and all(
        left_size == right_size or DYNAMIC_INDEX in (left_size, right_size)
        for left_size, right_size in zip(left, right, strict=True)
    )


def _verify_count(noun: str, actual: int, expected: int, counterpart: str) -> None:
    if actual != expected:
        raise VerifyException(f"{actual} {noun} for {expected} {counterpart}")


def _verify_indices(indices: Sequence[SSAValue], value: SSAValue) -> None:
    _verify_count("indices", len(indices), _tensor(value).get_num_dims(), f"dims of {value.type}")


def _verify_slice(
    operation: tensor.ExtractSliceOp | tensor.InsertSliceOp, full: SSAValue, sliced: SSAValue
) -> None:
    sizes = operation.static_sizes.get_values()
    rank = _tensor(full).get_num_dims()
    for name in ("offsets", "sizes", "strides"):
        values = getattr(operation, f"static_{name}").get_values()
        _verify_count(name, len(values), rank, f"dims of {full.type}")
    is_possible = _is_slice_shape(_tensor(sliced).get_shape(), sizes)
    if _element_type(sliced) != _element_type(full) or not is_possible:
        shape = "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in sizes)
        raise VerifyException(f"a slice of {shape} elements of {full.type} is not a {sliced.type}")


def _is_slice_shape(shape: _Shape, sizes: _Shape) -> bool:
    """Return whether a slice of these sizes may have this shape; it may drop dims of size 1."""
    if not sizes:
        return not shape
    if shape and (sizes[0] == shape[0] or DYNAMIC_INDEX in (sizes[0], shape[0])):
        return _is_slice_shape(shape[1:], sizes[1:]) or (
            sizes[0] == 1 and _is_slice_shape(shape, sizes[1:])
        )
    return sizes[0] == 1 and _is_slice_shape(shape, sizes[1:])


def _verify_yield(region: Region, expected: Sequence[Attribute]) -> None:
    last = region.block.last_op if len(region.blocks) == 1 else None
    if not isinstance(last, scf.YieldOp | YieldOp):
        return
    actual = [operand.type for operand in last.operands]
    if actual != list(expected):
        yielded, declared = (
            ", ".join(map(str, types)) or "nothing" for types in (actual, expected)
        )
        raise VerifyException(f"its region yields {yielded} instead of {declared}")


def _verify_index(operation: IndexOp) -> None:
    parent = operation.parent_op()
    if isinstance(parent, GenericOp):
        loops = len(parent.iterator_types)
        if not 0 <= operation.dim.value.data < loops:
            raise VerifyException(
                f"loop {operation.dim.value.data} of {loops}: linalg.index names a loop that does "
                "not exist"
            )


def _verify_branches(operation: scf.IfOp) -> None:
    result_types = [result.type for result in operation.output]
    if result_types and not operation.false_region.blocks:
        raise VerifyException("has results but no else region")
    for region in (operation.true_region, operation.false_region):
        _verify_yield(region, result_types)
