"""Evaluates the loop IR on host images of tensors: what a bundle means before it has OpSpecs.

An image holds the elements of a tensor by their host offset, so that layouts play no part here.
"""

import math
from collections.abc import Mapping, Sequence

import sympy
import torch
from sympy import Symbol

from torch_spyre._C import get_device_dtype
from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.loop_ir import (
    Constant,
    Coordinate,
    Load,
    LoopOp,
    Node,
    Reduction,
    traverse,
)
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.multi_loop.roles import ROLES_INFO
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import Kind, record_of
from torch_spyre._inductor.verification import op_results
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.value_formats import (
    ValueFormat,
    converted,
    encode,
    rounded,
    value_format,
)
from torch_spyre.errors import NoReferenceError


def host_image(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's elements by host offset, in the format of the card."""
    format = format_of(tensor.dtype)
    detached = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        # The range of the host's dtype is smaller than that of the card's format.
        values = torch.empty(tensor.shape, dtype=torch.float32).copy_(detached).double()
    else:
        host = detached.cpu()
        values = host.double() if format.is_float else host.to(torch.int64)
    if format.is_sen169:
        values = torch.where(values.isinf(), values.sign() * format.largest, values)
    image = torch.zeros(_extent(tensor.shape, tensor.stride()), dtype=values.dtype)
    image[_offsets(tensor.shape, tensor.stride())] = values
    return encode(image, format).contiguous().view(torch.uint8)


def _extent(size: Sequence[int], stride: Sequence[int]) -> int:
    if math.prod(size) == 0:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def _offsets(size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    offsets = torch.zeros((), dtype=torch.int64)
    for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [n if d == dim else 1 for d in range(len(size))]
        offsets = offsets + torch.arange(n).view(shape) * step
    return offsets.expand(tuple(size))


def format_of(dtype: torch.dtype) -> ValueFormat:
    return value_format(get_device_dtype(dtype))


class LoopInterpreter:
    """Interprets the loops of a bundle; `images` are those of its arguments before the launch."""

    def __init__(self, bundle: Bundle, images: Mapping[str, torch.Tensor]) -> None:
        self.bundle = bundle
        self.memories = {
            name: Memory(images[name]) if name in images else _undefined(tensor)
            for name, tensor in bundle.tensors.items()
        }

    def run(self) -> None:
        """Interpret all loops, in the order of their groups."""
        groups = self.bundle.groups or (self.bundle.ops,)
        for op in (op for group in groups for op in group):
            _LoopEvaluation(self, op).run()


def _undefined(tensor: Tensor) -> Memory:
    return Memory(None, _extent(tensor.size, tensor.stride) * format_of(tensor.dtype).bytes)


class _LoopEvaluation:
    """One loop op over its iteration space."""

    def __init__(self, interpreter: LoopInterpreter, op: LoopOp) -> None:
        self.memories, self.op = interpreter.memories, op
        self.grid = Grid(op.sizes)
        self.values: dict[Node, Bounds] = {}
        self.reduced = [self.grid.dims[symbol] for symbol in op.reduced]

    def run(self) -> None:
        op, target = self.op, format_of(self.op.dtype)
        for node in traverse(op.roots):
            self.values[node] = self._node(node)
        operands = [self.values[root] for root in op.roots]
        if isinstance(op.value, Reduction):
            values = self._reduction(op.value, operands, target)
        else:
            values = converted(operands[0], format_of(op.value.dtype), target)
        self._resolve(op.scattered)
        positions = self.grid.evaluate(op.write)
        shape = torch.broadcast_shapes(positions.shape, values.shape)
        self.memories[op.target].write(
            positions.expand(shape), values.expand(shape), target, stick=1
        )

    def _node(self, node: Node) -> Bounds:
        format = format_of(node.dtype)
        match node:
            case Constant(value=value):
                return op_results.constant(value, format, self.grid)
            case Load():
                return self._load(node)
            case Coordinate(expression=expression):
                return rounded(Bounds.exact(self.grid.evaluate(expression)), format)
        operands = [self.values[operand] for operand in node.inputs]
        record = record_of(node.op)
        # The condition of a selection has a dtype of its own.
        source = format_of(node.inputs[-1].dtype)
        if record.kind not in (Kind.DATA_MOVEMENT, Kind.CONVERSION):
            typed = node.inputs[1:] if record.kind is Kind.SELECTION else node.inputs
            source = format_of(typed[0].dtype)
        return op_results.elementwise(record, operands, (), source, format)

    def _load(self, load: Load) -> Bounds:
        self._resolve(load.indirect)
        positions = self.grid.evaluate(load.index)
        return self.memories[load.buffer].read(positions, format_of(load.dtype))

    def _resolve(self, indirect: Sequence[tuple[Symbol, Load]]) -> None:
        """Look up the values of symbols that index tensors hold."""
        for symbol, source in indirect:
            indices = self._load(source)
            if not bool(indices.is_point.all()):
                raise NoReferenceError(f"the indices {source.buffer} are known within bounds only")
            self.grid.values[symbol] = indices.low.to(torch.int64)

    def _reduction(
        self, value: Reduction, operands: Sequence[Bounds], target: ValueFormat
    ) -> Bounds:
        multi_loop = find_multi_loop_op(value.op)
        if multi_loop is not None:
            return self._multi_loop(multi_loop, value, operands, target)
        record = record_of(value.op)
        if record.kind is Kind.MATMUL:
            left, right = operands
            return op_results.matmul(left, right, self.reduced, self.grid, _MAX_CORES, target)
        constants = [dict(value.constants)[name] for name in record.constants]
        source = format_of(value.inputs[-1].dtype)
        return op_results.reduction(
            record, operands[-1], constants, self.reduced, self.grid, _MAX_CORES, source, target
        )

    def _multi_loop(
        self,
        op: MultiLoopOp,
        value: Reduction,
        operands: Sequence[Bounds],
        target: ValueFormat,
    ) -> Bounds:
        """Return the result of a multi-loop op, from a spec on the symbols of the loop."""
        names = {symbol.name for symbol in self.op.sizes}
        roles = {role: {name: 1} if name in names else {} for role, name in op.roles.items()}
        info = {"constants": dict(value.constants), ROLES_INFO: roles}
        space = {symbol: (sympy.Integer(size), 1) for symbol, size in self.op.sizes.items()}
        inputs = [_typed_argument(node.dtype, is_input=True) for node in value.inputs]
        output = _typed_argument(self.op.dtype, is_input=False)
        spec = OpSpec(value.op, True, space, [*inputs, output], info)
        result = op.enclose(spec, operands, self.grid)
        if result is None:
            raise NoReferenceError(f"{value.op} has no bounds")
        return op_results.multi_loop(result, target)


# The most parts that a sum may be divided into.
_MAX_CORES = 64


def _typed_argument(dtype: torch.dtype, *, is_input: bool) -> TensorArg:
    """Return a tensor of which only the format is used."""
    return TensorArg(is_input, 0, get_device_dtype(dtype), [1], [sympy.S.Zero], {"hbm": 0})
