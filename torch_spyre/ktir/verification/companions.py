"""Rules of `tensor`, `linalg` and `scf` that xDSL's ops do not check themselves.

A text that breaks one of them would be lowered to something that it does not say.
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


def verify_companions(operation: Operation) -> None:
    """Comes before an op's own rules, which may take these for granted."""
    match operation:
        case tensor.EmptyOp():
            unknown = list(_tensor(operation.tensor).get_shape()).count(DYNAMIC_INDEX)
            _verify_count("sizes", len(operation.dynamic_sizes), unknown, "dims `?`")
        case tensor.FromElementsOp():
            wanted = _tensor(operation.result).element_count()
            _verify_count("elements", len(operation.elements), wanted, "places in its result")
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
                raise VerifyException(f"{order} is no permutation of {rank} dims")
            _verify_elements(operation.inputs[0], operation.outputs[0])
        case BroadcastOp():
            _verify_elements(operation.input, operation.init)
            _verify_broadcast(operation)
        case tensor.CollapseShapeOp() | ExpandShapeOp() | tensor.ReshapeOp() | tensor.CastOp():
            _verify_elements(operation.operands[0], operation.results[0])
        case ReduceOp():
            rank = _tensor(operation.input).get_num_dims()
            dims = list(operation.dimensions.get_values())
            if len(set(dims)) != len(dims) or any(not 0 <= dim < rank for dim in dims):
                raise VerifyException(f"dimensions {dims} of a tensor of {rank} dims")
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


def _verify_elements(before: SSAValue, after: SSAValue) -> None:
    if _element_type(before) != _element_type(after):
        raise VerifyException(f"{before.type} and {after.type} hold different elements")


def _verify_broadcast(operation: BroadcastOp) -> None:
    whole = _tensor(operation.init).get_shape()
    added = list(operation.dimensions.get_values())
    if len(set(added)) != len(added) or any(not 0 <= dim < len(whole) for dim in added):
        raise VerifyException(f"dimensions {added} of a tensor of {len(whole)} dims")
    rest = [size for dim, size in enumerate(whole) if dim not in added]
    if not _agree(_tensor(operation.input).get_shape(), rest):
        before, after = operation.input.type, operation.init.type
        raise VerifyException(f"{before} is not {after} without its dimensions {added}")


def _verify_results(operation: LinalgStructuredOperation) -> None:
    """Results have the types of the outs, but for sizes that only one of them tells."""
    for result, out in zip(operation.res, operation.outputs, strict=False):
        same = _agree(_tensor(out).get_shape(), _tensor(result).get_shape())
        if not same or _element_type(out) != _element_type(result):
            raise VerifyException(f"the result is {result.type}, and the outs are {out.type}")


def _agree(one: _Shape, other: _Shape) -> bool:
    return len(one) == len(other) and all(
        size == wanted or DYNAMIC_INDEX in (size, wanted)
        for size, wanted in zip(one, other, strict=True)
    )


def _verify_count(what: str, found: int, wanted: int, places: str) -> None:
    if found != wanted:
        raise VerifyException(f"{found} {what} for {wanted} {places}")


def _verify_indices(indices: Sequence[SSAValue], of: SSAValue) -> None:
    _verify_count("indices", len(indices), _tensor(of).get_num_dims(), f"dims of {of.type}")


def _verify_slice(
    operation: tensor.ExtractSliceOp | tensor.InsertSliceOp, whole: SSAValue, part: SSAValue
) -> None:
    sizes = operation.static_sizes.get_values()
    rank = _tensor(whole).get_num_dims()
    for given in (operation.static_offsets, operation.static_sizes, operation.static_strides):
        _verify_count("numbers", len(given.get_values()), rank, f"dims of {whole.type}")
    if _element_type(part) != _element_type(whole) or not _can_be(sizes, _tensor(part).get_shape()):
        shape = "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in sizes)
        raise VerifyException(f"a slice of {shape} elements of {whole.type} is no {part.type}")


def _can_be(sizes: _Shape, shape: _Shape) -> bool:
    """Is this the shape of a slice of these sizes, perhaps without some dims of size 1?"""
    if not sizes:
        return not shape
    if shape and (sizes[0] == shape[0] or DYNAMIC_INDEX in (sizes[0], shape[0])):
        return _can_be(sizes[1:], shape[1:]) or (sizes[0] == 1 and _can_be(sizes[1:], shape))
    return sizes[0] == 1 and _can_be(sizes[1:], shape)


def _verify_yield(region: Region, wanted: Sequence[Attribute]) -> None:
    last = region.block.last_op if len(region.blocks) == 1 else None
    if not isinstance(last, scf.YieldOp | YieldOp):
        return
    found = [operand.type for operand in last.operands]
    if found != list(wanted):
        yielded, asked = (", ".join(map(str, types)) or "nothing" for types in (found, wanted))
        raise VerifyException(f"its region yields {yielded} instead of {asked}")


def _verify_index(operation: IndexOp) -> None:
    around = operation.parent_op()
    if isinstance(around, GenericOp):
        loops = len(around.iterator_types)
        if not 0 <= operation.dim.value.data < loops:
            raise VerifyException(f"loop {operation.dim.value.data} of {loops}")


def _verify_branches(operation: scf.IfOp) -> None:
    wanted = [result.type for result in operation.output]
    if wanted and not operation.false_region.blocks:
        raise VerifyException("has results and no else")
    for region in (operation.true_region, operation.false_region):
        _verify_yield(region, wanted)
