"""The state of a kernel during its lowering, and the methods by which lowerings add to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from torch_spyre.backend.lowering.nodes import (
    CopyTensor,
    Elementwise,
    Node,
    Output,
    Plain,
    ScalarInput,
)
from torch_spyre.backend.lowering.registers import Registers, bound, constant_fold
from torch_spyre.backend.lowering.values import (
    Extent,
    Splat,
    Tensor,
    TensorView,
    Undefined,
    as_view,
    element_type_of,
    new_tensor,
    reshaped,
)
from torch_spyre.backend.program.instructions import (
    ElementType,
    FixedBuffer,
    Move,
    Scalar,
    SourceLocation,
    View,
)
from torch_spyre.errors import KtirError
from torch_spyre.ktir.locations import position_of
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.verification.report import error_at

_AFFINE_OPS = {
    AffineBinaryOpKind.Add: "addi",
    AffineBinaryOpKind.Mul: "muli",
    AffineBinaryOpKind.FloorDiv: "floordivsi",
    AffineBinaryOpKind.CeilDiv: "ceildivsi",
}


def _is_exact(bits: int) -> bool:
    """Return whether a float32, by its bits, is exact in every float type of the card."""
    exponent = bits >> 23 & 0xFF
    return bits == 0 or (bits & 0x1FFFFF == 0 and 127 - 6 <= exponent <= 127 + 7)


# The largest size of a dim; it ensures that strides fit in 64 bits.
MAX_EXTENT = 1 << 40
# A bound of the address of an array, in elements.
MAX_ADDRESS = 1 << 50


@dataclass
class KernelContext:
    """The kernel being lowered; `nodes` is the region that lowerings append to."""

    source: Source | None
    grid: tuple[int, int, int]
    registers: Registers
    nodes: list[Node] = field(default_factory=list)
    scalars: dict[SSAValue, int] = field(default_factory=dict)
    tensors: dict[SSAValue, Tensor] = field(default_factory=dict)
    # Views and tiles produce no nodes; loads and stores read their descriptions here.
    views: dict[SSAValue, tuple[View, ...]] = field(default_factory=dict)
    tiles: dict[SSAValue, object] = field(default_factory=dict)
    # How far a view extends from the start of its array, in elements, where that is bounded.
    view_ends: dict[SSAValue, int] = field(default_factory=dict)
    locations: list[SourceLocation] = field(default_factory=list)
    location: int = 0
    operation: Operation | None = None
    # Nodes that every core runs before the body.
    prologue: list[Node] = field(default_factory=list)
    _literals: dict[tuple[int, ElementType], int] = field(default_factory=dict)
    # The float32 bits of registers that hold a literal rounded to a smaller type.
    literal_bits: dict[int, int] = field(default_factory=dict)
    fixed_buffers: list[FixedBuffer] = field(default_factory=list)
    channels: int = 0
    # Whether transfers raise for every coordinate outside their view.
    checks_bounds: bool = False
    tables: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)

    @property
    def cores(self) -> int:
        x, y, z = self.grid
        return x * y * z

    def set_location(self, operation: Operation) -> None:
        """Set the op that the following nodes are lowered from."""
        position = position_of(operation)
        line, column = 0, 0
        if position is not None:
            line, column = position.line.data, position.column.data
        self.operation = operation
        self.location = len(self.locations)
        self.locations.append(SourceLocation(operation.name, line, column))

    def error(self, problem: str) -> KtirError:
        """Return an error at the location of the current op."""
        assert self.operation is not None
        return error_at(self.operation, problem, self.source)

    def add(self, node: Node) -> None:
        self.nodes.append(node)

    @contextmanager
    def region(self, nodes: list[Node]) -> Iterator[None]:
        """Append nodes to a region within a `with` statement."""
        enclosing, self.nodes = self.nodes, nodes
        try:
            yield
        finally:
            self.nodes = enclosing

    # Types

    def element_type(self, type: Attribute) -> ElementType:
        """Return the element type of a tensor or scalar type."""
        if isinstance(type, TensorType):
            type = type.element_type
        element_type = element_type_of(type)
        if element_type is None:
            raise self.error(f"the card has no elements of type {type}")
        return element_type

    # Scalars

    def scalar(self, value: SSAValue) -> int:
        if value not in self.scalars:
            raise self.error(f"expected a scalar, not {value.type}")
        return self.scalars[value]

    def constant(self, value: int) -> int:
        return self.registers.constant(value)

    def literal(self, bits: int, type: ElementType) -> int:
        """Return a register with a literal of the source, rounded to its type by the card."""
        if not type.is_float or type is ElementType.F32 or _is_exact(bits):
            return self.constant(bits)
        key = (bits, type)
        if key not in self._literals:
            register = self.registers.new()
            inputs = (self.constant(bits),)
            convert = Scalar(self.location, "convertf", ElementType.F32, type, register, inputs)
            self.prologue.append(Plain(self.location, convert))
            self._literals[key] = register
            self.literal_bits[register] = bits
        return self._literals[key]

    def constant_bits(self, register: int) -> int | None:
        """Return the bits of the constant in a register, before rounding; None if not constant."""
        return self.literal_bits.get(register, self.registers.constant_value(register))

    def compute(
        self,
        op: str,
        operand: ElementType,
        result: ElementType,
        inputs: Sequence[int],
    ) -> int:
        """Return a register with the result of an op, constant-folded if possible."""
        bounds = None
        if not operand.is_float and not result.is_float:
            known = [self.registers.constant_value(register) for register in inputs]
            if None not in known:
                values = [value for value in known if value is not None]
                constant = constant_fold(op, values, operand, result)
                if constant is not None:
                    return self.constant(constant)
            ranges = [self.registers.bounds(register) for register in inputs]
            bounds = bound(op, ranges, operand, result)
        destination = self.registers.new(bounds)
        self.add(
            Plain(
                self.location,
                Scalar(self.location, op, operand, result, destination, tuple(inputs)),
            )
        )
        return destination

    def compute_index(self, op: str, left: int, right: int) -> int:
        """Return a register with the result of index arithmetic; drop neutral operands."""
        neutral = {"addi": 0, "subi": 0, "muli": 1}.get(op)
        if neutral is not None and self.registers.constant_value(right) == neutral:
            return left
        if op in ("addi", "muli") and self.registers.constant_value(left) == neutral:
            return right
        return self.compute(op, ElementType.I64, ElementType.I64, (left, right))

    def move(self, destination: int, source: int) -> None:
        if destination != source:
            self.add(Plain(self.location, Move(self.location, destination, source)))

    def compute_affine(
        self, expression: AffineExpr, dims: Sequence[int], symbols: Sequence[int] = ()
    ) -> int:
        """Return a register with the value of an affine expression of registers."""
        match expression:
            case AffineConstantExpr():
                return self.constant(expression.value)
            case AffineDimExpr():
                return dims[expression.position]
            case AffineSymExpr():
                return symbols[expression.position]
            case AffineBinaryOpExpr():
                left = self.compute_affine(expression.lhs, dims, symbols)
                right = self.compute_affine(expression.rhs, dims, symbols)
                if expression.kind is AffineBinaryOpKind.Mod:
                    quotient = self.compute_index("floordivsi", left, right)
                    return self.compute_index(
                        "subi", left, self.compute_index("muli", quotient, right)
                    )
                return self.compute_index(_AFFINE_OPS[expression.kind], left, right)
        raise self.error(f"the affine expression {expression} is not supported")

    # Sizes

    def mixed_values(self, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[int]:
        """Return a register per integer: a constant, or the next dynamic value where it is `?`."""
        values = iter(dynamic)
        return [
            self.scalar(next(values)) if integer == DYNAMIC_INDEX else self.constant(integer)
            for integer in static
        ]

    def extent(self, register: int) -> Extent:
        """Return the size in a register as an extent; raise if it has no upper bound."""
        known = self.registers.constant_value(register)
        if known is not None:
            if not 0 <= known <= MAX_EXTENT:
                raise self.error(f"a size of {known} is not in the range 0 to {MAX_EXTENT}")
            return Extent(register, known, True)
        bounds = self.registers.bounds(register)
        if bounds is None or bounds[1] > MAX_EXTENT:
            raise self.error(
                "a size is known only at run time and has no upper bound: pass its value to "
                "compile(), or bound it with arith.minsi or !ktdp.runtime_arg<..., upperbound>"
            )
        return Extent(register, max(bounds[1], 0), False)

    def static_extent(self, size: int) -> Extent:
        return self.extent(self.constant(size))

    def extents_of(
        self, type: Attribute, dynamic: Sequence[Extent] | None = None
    ) -> tuple[Extent, ...]:
        """Return the extents of a tensor type; `dynamic` supplies those of its `?` dims."""
        assert isinstance(type, TensorType)
        extents = []
        for dim, size in enumerate(type.get_shape()):
            if size != DYNAMIC_INDEX:
                extents.append(self.static_extent(size))
            elif dynamic is not None and dim < len(dynamic):
                extents.append(dynamic[dim])
            else:
                raise self.error(f"the size of dim {dim} of {type} is not known")
        return tuple(extents)

    # Tensors

    def tensor(self, value: SSAValue) -> Tensor:
        if value not in self.tensors:
            raise self.error(f"expected a tensor; {value.type} is not one, or is not defined")
        return self.tensors[value]

    def allocate(
        self, type: ElementType, extents: tuple[Extent, ...], value: SSAValue | None
    ) -> TensorView:
        """Return a tensor in a new buffer, named after the value that it holds."""
        hint = value.name_hint if value is not None else None
        name = f"%{hint}" if hint else self.locations[self.location].op
        return new_tensor(type, extents, name)

    def write(self, source: Tensor, destination: TensorView, *, writes_all: bool = True) -> None:
        """Write the elements of `source` to `destination`, which has the same shape.

        `writes_all` states that this writes every element of the destination's buffer.
        """
        match source:
            case Undefined():
                return
            case Splat():
                self.add(
                    Elementwise(
                        self.location,
                        destination.extents,
                        [ScalarInput(source.register, source.type)],
                        [],
                        [],
                        [Output(0, destination)],
                    )
                )
            case TensorView():
                self.add(CopyTensor(self.location, source, destination, writes_all))

    def to_buffer(self, tensor: Tensor, value: SSAValue | None = None) -> TensorView:
        """Return the tensor in a buffer: its present one, or a new one for a splat.

        `value` is the SSA value of the tensor; it names a new buffer.
        """
        match tensor:
            case TensorView():
                return tensor
            case Undefined():
                # Reading undefined elements is not an error: they are zeros.
                tensor = Splat(self.constant(0), tensor.type, tensor.extents)
        buffer = self.allocate(tensor.type, tensor.extents, value)
        self.write(tensor, buffer)
        return buffer

    def to_contiguous(self, tensor: Tensor, value: SSAValue | None = None) -> TensorView:
        """Return the tensor contiguous in a buffer, copied if needed; `value` as in `to_buffer`."""
        view = self.to_buffer(tensor, value)
        if view.is_contiguous:
            return view
        packed = self.allocate(view.type, view.extents, value)
        self.write(view, packed)
        return packed

    def reshape(self, tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView:
        """Return the elements in row-major order with another shape: a view, or else a copy."""
        return as_view(tensor, extents) or reshaped(self.to_contiguous(tensor), extents)
