"""Memory views: the layout of existing memory. They move and allocate nothing."""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineSetAttr,
    DenseArrayBase,
    IndexType,
    MemRefType,
    NoneAttr,
    i64,
)
from xdsl.dialects.utils.dynamic_index_list import (
    print_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineExpr, AffineSet
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.ktdp.attributes import (
    MemorySpaceAttr,
    SpyreMemorySpaceAttr,
    Visibility,
)
from torch_spyre.ktir.dialects.ktdp.format import (
    check_attribute_names,
    parse_typed_operands,
    print_attributes,
    print_typed_operands,
)


def full_box(static_sizes: Sequence[int]) -> AffineSet:
    """Return the set of all coordinates of a view; dynamic sizes become symbols, in order."""
    zero = AffineExpr.constant(0)
    constraints = []
    symbols = 0
    for position, size in enumerate(static_sizes):
        dim = AffineExpr.dimension(position)
        if size == DYNAMIC_INDEX:
            distance_to_end = -dim + AffineExpr.symbol(symbols) - 1
            symbols += 1
        else:
            distance_to_end = -dim + (size - 1)
        constraints.append(AffineConstraintExpr(AffineConstraintKind.ge, dim, zero))
        constraints.append(AffineConstraintExpr(AffineConstraintKind.ge, distance_to_end, zero))
    return AffineSet(len(static_sizes), symbols, tuple(constraints))


@irdl_op_definition
class ConstructMemoryViewOp(IRDLOperation):
    """Constructs a strided view of memory. Offset and strides count elements of the view's type."""

    name = "ktdp.construct_memory_view"

    offset = operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_sizes = prop_def(DenseArrayBase.constr(i64))
    static_strides = prop_def(DenseArrayBase.constr(i64))
    memory_space = prop_def(base(MemorySpaceAttr) | base(SpyreMemorySpaceAttr))
    coordinate_set = prop_def(AffineSetAttr)
    result = result_def(MemRefType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        offset: SSAValue,
        sizes: Sequence[int | SSAValue],
        strides: Sequence[int | SSAValue],
        result_type: Attribute,
        memory_space: Attribute | None = None,
        coordinate_set: AffineSet | None = None,
    ) -> None:
        static_sizes = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
        static_strides = [size if isinstance(size, int) else DYNAMIC_INDEX for size in strides]
        super().__init__(
            operands=[
                offset,
                [size for size in sizes if isinstance(size, SSAValue)],
                [stride for stride in strides if isinstance(stride, SSAValue)],
            ],
            result_types=[result_type],
            properties={
                "static_sizes": DenseArrayBase.from_list(i64, static_sizes),
                "static_strides": DenseArrayBase.from_list(i64, static_strides),
                "memory_space": memory_space or MemorySpaceAttr(Visibility.GLOBAL),
                "coordinate_set": AffineSetAttr(coordinate_set or full_box(static_sizes)),
            },
        )

    def symbol_operands(self) -> Sequence[SSAValue]:
        """Return the sizes that the symbols of the coordinate set are bound to, in order.

        They are the sizes of the dynamic dims of the type. The size of a static dim may be an SSA
        value too; it binds a symbol only if the set has a symbol for every size that is a value.
        """
        if self.coordinate_set.data.num_symbols == len(self.sizes):
            return self.sizes
        shape = self.result.type.get_shape()
        dynamic = [
            dim for dim, size in enumerate(self.static_sizes.get_values()) if size == DYNAMIC_INDEX
        ]
        return [
            operand
            for dim, operand in zip(dynamic, self.sizes, strict=True)
            if shape[dim] == DYNAMIC_INDEX
        ]

    def verify_(self) -> None:
        sizes = self.static_sizes.get_values()
        strides = self.static_strides.get_values()
        shape = self.result.type.get_shape()
        if len(sizes) != len(strides):
            raise VerifyException(f"{len(sizes)} sizes but {len(strides)} strides")
        if len(shape) != len(sizes):
            raise VerifyException(f"{len(sizes)} sizes but the memref has rank {len(shape)}")
        verify_dynamic_index_list(sizes, self.sizes, DYNAMIC_INDEX, " in sizes")
        verify_dynamic_index_list(strides, self.strides, DYNAMIC_INDEX, " in strides")
        for dim, (size, declared) in enumerate(zip(sizes, shape, strict=True)):
            if size == DYNAMIC_INDEX:
                continue
            if declared == DYNAMIC_INDEX:
                raise VerifyException(
                    f"dim {dim} of the memref is `?`, so its size must be a value, not {size}"
                )
            if size != declared:
                raise VerifyException(
                    f"size {size} of dim {dim} differs from the memref's {declared}"
                )
        self._verify_coordinate_set(len(shape))
        space = self.result.type.memory_space
        if not isinstance(space, NoneAttr) and space != self.memory_space:
            raise VerifyException(
                f"memory_space {self.memory_space} differs from the memref's {space}"
            )

    def _verify_coordinate_set(self, rank: int) -> None:
        coordinates = self.coordinate_set.data
        if coordinates.num_dims != rank:
            raise VerifyException(
                f"coordinate_set has {coordinates.num_dims} dims, the memref rank {rank}"
            )
        if coordinates.num_symbols > len(self.symbol_operands()):
            raise VerifyException(
                f"coordinate_set has {coordinates.num_symbols} symbols, and "
                f"{len(self.symbol_operands())} sizes are values"
            )

    @classmethod
    def parse(cls, parser: Parser) -> "ConstructMemoryViewOp":
        offset = parser.parse_operand(IndexType())
        parser.parse_punctuation(",")
        sizes = _parse_mixed_list(parser, "sizes")
        parser.parse_punctuation(",")
        strides = _parse_mixed_list(parser, "strides")
        start = parser.pos
        attributes = parser.parse_optional_attr_dict()
        check_attribute_names(parser, attributes, ("coordinate_set", "memory_space"), start)
        parser.parse_punctuation(":")
        position = parser.pos
        result_type = parser.parse_type()
        if not isinstance(result_type, MemRefType):
            parser.raise_error(
                f"{cls.name}: expected a ranked memref, found {result_type}", position
            )
        space = result_type.memory_space
        default = None if isinstance(space, NoneAttr) else space
        coordinates = attributes.pop("coordinate_set", None)
        if coordinates is not None and not isinstance(coordinates, AffineSetAttr):
            parser.raise_error(f"{cls.name}: coordinate_set must be an affine set", position)
        operation = cls(
            offset,
            sizes,
            strides,
            result_type,
            attributes.pop("memory_space", default),
            coordinates.data if coordinates is not None else None,
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.offset)
        printer.print_string(", sizes: ")
        print_dynamic_index_list(printer, DYNAMIC_INDEX, self.sizes, self.static_sizes.get_values())
        printer.print_string(", strides: ")
        print_dynamic_index_list(
            printer, DYNAMIC_INDEX, self.strides, self.static_strides.get_values()
        )
        named = {"coordinate_set": self.coordinate_set, "memory_space": self.memory_space}
        print_attributes(printer, named, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def _parse_mixed_list(parser: Parser, keyword: str) -> list[int | SSAValue]:
    """Parse keyword `:` `[` (int | ssa), ... `]`"""
    parser.parse_keyword(keyword)
    parser.parse_punctuation(":")

    def parse_entry() -> int | SSAValue:
        operand = parser.parse_optional_unresolved_operand()
        if operand is not None:
            return parser.resolve_operand(operand, IndexType())
        position = parser.pos
        value = parser.parse_integer(allow_boolean=False)
        if abs(value) >= 1 << 62 or (keyword == "sizes" and value < 0):
            parser.raise_error(f"{value} is out of range for {keyword}", position)
        return value

    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_entry)


@irdl_op_definition
class ConstructDistributedMemoryViewOp(IRDLOperation):
    """Constructs a view in global coordinates from views that hold one partition each."""

    name = "ktdp.construct_distributed_memory_view"

    views = var_operand_def(MemRefType)
    result = result_def(MemRefType)

    traits = traits_def(Pure())

    def __init__(self, views: Sequence[SSAValue], result_type: Attribute) -> None:
        super().__init__(operands=[views], result_types=[result_type])

    def verify_(self) -> None:
        if not self.views:
            raise VerifyException("at least one view is required")
        declared = self.result.type
        for position, view in enumerate(self.views):
            view_type = view.type
            assert isinstance(view_type, MemRefType)
            if view_type.element_type != declared.element_type:
                raise VerifyException(
                    f"view {position} has elements {view_type.element_type}, the result "
                    f"{declared.element_type}"
                )
            if view_type.get_num_dims() != declared.get_num_dims():
                raise VerifyException(
                    f"view {position} has rank {view_type.get_num_dims()}, the result "
                    f"{declared.get_num_dims()}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> "ConstructDistributedMemoryViewOp":
        views = parse_typed_operands(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operation = cls(views, parser.parse_type())
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_typed_operands(printer, self.views)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
