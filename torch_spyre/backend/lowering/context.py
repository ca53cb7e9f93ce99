"""What every lowering needs: the kernel being built, and how to add to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX, FileLineColLoc, TensorType
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
from torch_spyre.backend.lowering.registers import Registers, bound, fold
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
from torch_spyre.ktir.errors import KtirError
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.verification.report import error_at

_AFFINE_OPS = {
    AffineBinaryOpKind.Add: "addi",
    AffineBinaryOpKind.Mul: "muli",
    AffineBinaryOpKind.FloorDiv: "floordivsi",
    AffineBinaryOpKind.CeilDiv: "ceildivsi",
}


def _is_exact(bits: int) -> bool:
    """Is this float32 a number in every float type the card has?"""
    exponent = bits >> 23 & 0xFF
    return bits == 0 or (bits & 0x1FFFFF == 0 and 127 - 6 <= exponent <= 127 + 7)


# No tile can be larger than this, whatever a text says; keeps strides inside 64 bits.
LARGEST_EXTENT = 1 << 40


@dataclass
class KernelContext:
    """The kernel being lowered. `nodes` is the region that handlers append to."""

    source: Source | None
    grid: tuple[int, int, int]
    registers: Registers
    nodes: list[Node] = field(default_factory=list)
    scalars: dict[SSAValue, int] = field(default_factory=dict)
    tensors: dict[SSAValue, Tensor] = field(default_factory=dict)
    # Views and tiles are names for memory: what a load or store needs of them.
    views: dict[SSAValue, tuple[View, ...]] = field(default_factory=dict)
    tiles: dict[SSAValue, object] = field(default_factory=dict)
    locations: list[SourceLocation] = field(default_factory=list)
    location: int = 0
    operation: Operation | None = None
    # Runs before everything else, on every core.
    prologue: list[Node] = field(default_factory=list)
    _literals: dict[tuple[int, ElementType], int] = field(default_factory=dict)
    # What a register was before it was rounded to its type.
    literal_bits: dict[int, int] = field(default_factory=dict)
    fixed_buffers: list[FixedBuffer] = field(default_factory=list)
    channels: int = 0
    tables: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)

    @property
    def cores(self) -> int:
        x, y, z = self.grid
        return x * y * z

    def at(self, operation: Operation) -> None:
        """What follows comes from this op of the text."""
        location = operation.location
        line, column = 0, 0
        if isinstance(location, FileLineColLoc):
            line, column = location.line.data, location.column.data
        self.operation = operation
        self.location = len(self.locations)
        self.locations.append(SourceLocation(operation.name, line, column))

    def error(self, problem: str) -> KtirError:
        assert self.operation is not None
        return error_at(self.operation, problem, self.source)

    def add(self, node: Node) -> None:
        self.nodes.append(node)

    @contextmanager
    def region(self, nodes: list[Node]) -> Iterator[None]:
        around, self.nodes = self.nodes, nodes
        try:
            yield
        finally:
            self.nodes = around

    # Types

    def element_type(self, found: Attribute) -> ElementType:
        if isinstance(found, TensorType):
            found = found.element_type
        element = element_type_of(found)
        if element is None:
            raise self.error(f"the card has no elements of type {found}")
        return element

    # Scalars

    def scalar(self, value: SSAValue) -> int:
        if value not in self.scalars:
            raise self.error(f"a scalar is needed, and {value.type} is not one")
        return self.scalars[value]

    def constant(self, value: int) -> int:
        return self.registers.constant(value)

    def literal(self, bits: int, type: ElementType) -> int:
        """A register with a number of the text, rounded to its type by the card."""
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

    def number(self, register: int) -> int | None:
        """The bits of the number that the text gave this register; None if it gave none."""
        return self.literal_bits.get(register, self.registers.known(register))

    def compute(
        self,
        op: str,
        operand: ElementType,
        result: ElementType,
        inputs: Sequence[int],
    ) -> int:
        """A register with the op's result: a constant if it can be told now."""
        bounds = None
        if not operand.is_float and not result.is_float:
            known = [self.registers.known(register) for register in inputs]
            if None not in known:
                values = [value for value in known if value is not None]
                folded = fold(op, values, operand, result)
                if folded is not None:
                    return self.constant(folded)
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

    def integer(self, op: str, left: int, right: int) -> int:
        """Index arithmetic; what changes nothing is left out."""
        neutral = {"addi": 0, "subi": 0, "muli": 1}.get(op)
        if neutral is not None and self.registers.known(right) == neutral:
            return left
        if op in ("addi", "muli") and self.registers.known(left) == neutral:
            return right
        return self.compute(op, ElementType.I64, ElementType.I64, (left, right))

    def move(self, destination: int, source: int) -> None:
        if destination != source:
            self.add(Plain(self.location, Move(self.location, destination, source)))

    def affine(
        self, expression: AffineExpr, dims: Sequence[int], symbols: Sequence[int] = ()
    ) -> int:
        """A register with the value of an affine expression of registers."""
        match expression:
            case AffineConstantExpr():
                return self.constant(expression.value)
            case AffineDimExpr():
                return dims[expression.position]
            case AffineSymExpr():
                return symbols[expression.position]
            case AffineBinaryOpExpr():
                left = self.affine(expression.lhs, dims, symbols)
                right = self.affine(expression.rhs, dims, symbols)
                if expression.kind is AffineBinaryOpKind.Mod:
                    quotient = self.integer("floordivsi", left, right)
                    return self.integer("subi", left, self.integer("muli", quotient, right))
                return self.integer(_AFFINE_OPS[expression.kind], left, right)
        raise self.error(f"cannot compute {expression}")

    # Sizes

    def mixed(self, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[int]:
        """Registers for numbers some of which the text leaves to values, in their order."""
        values = iter(dynamic)
        return [
            self.scalar(next(values)) if number == DYNAMIC_INDEX else self.constant(number)
            for number in static
        ]

    def extent(self, register: int) -> Extent:
        known = self.registers.known(register)
        if known is not None:
            if not 0 <= known <= LARGEST_EXTENT:
                raise self.error(f"a size of {known}")
            return Extent(register, known, True)
        bounds = self.registers.bounds(register)
        if bounds is None or bounds[1] > LARGEST_EXTENT:
            raise self.error(
                "a size is known only at run time and has no upper bound: give it as an argument "
                "of compile(), or bound it with arith.minsi or !ktdp.runtime_arg<..., upperbound>"
            )
        return Extent(register, max(bounds[1], 0), False)

    def static_extent(self, size: int) -> Extent:
        return self.extent(self.constant(size))

    def shape_of(
        self, found: Attribute, dynamic: Sequence[Extent] | None = None
    ) -> tuple[Extent, ...]:
        """The extents of a tensor type; its `?` are taken from `dynamic`, dim by dim."""
        assert isinstance(found, TensorType)
        extents = []
        for dim, size in enumerate(found.get_shape()):
            if size != DYNAMIC_INDEX:
                extents.append(self.static_extent(size))
            elif dynamic is not None and dim < len(dynamic):
                extents.append(dynamic[dim])
            else:
                raise self.error(f"the size of dim {dim} of {found} is not known")
        return tuple(extents)

    # Tensors

    def tensor(self, value: SSAValue) -> Tensor:
        if value not in self.tensors:
            raise self.error(f"a tensor is needed; {value.type} is not one, or nothing gives it")
        return self.tensors[value]

    def new(
        self, type: ElementType, extents: tuple[Extent, ...], of: SSAValue | None
    ) -> TensorView:
        hint = of.name_hint if of is not None else None
        name = f"%{hint}" if hint else self.locations[self.location].op
        return new_tensor(type, extents, name)

    def write(self, source: Tensor, destination: TensorView, *, whole: bool = True) -> None:
        """Gives `destination` the elements of `source`, which has the same shape."""
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
                self.add(CopyTensor(self.location, source, destination, whole))

    def in_memory(self, tensor: Tensor, of: SSAValue | None = None) -> TensorView:
        """The tensor in a buffer: where it is, or a new one."""
        match tensor:
            case TensorView():
                return tensor
            case Undefined():
                # Reading what was never written is up to the kernel, but it must read something.
                tensor = Splat(self.constant(0), tensor.type, tensor.extents)
        buffer = self.new(tensor.type, tensor.extents, of)
        self.write(tensor, buffer)
        return buffer

    def contiguous(self, tensor: Tensor, of: SSAValue | None = None) -> TensorView:
        """In a buffer, row by row without gaps."""
        found = self.in_memory(tensor, of)
        if found.is_contiguous:
            return found
        packed = self.new(found.type, found.extents, of)
        self.write(found, packed)
        return packed

    def in_shape(self, tensor: TensorView, extents: tuple[Extent, ...]) -> TensorView:
        """The elements row by row under another shape: where they are, or else a copy of them."""
        return as_view(tensor, extents) or reshaped(self.contiguous(tensor), extents)
