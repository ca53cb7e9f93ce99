"""Base classes of delivery ops: their operands, clauses and syntax.

    op `(` future `)` clause {`,` clause} [attributes] `:` future-type `->` types [region]

A clause is `name = value`, or `identity(values : types)`. Clauses may be in any order, and all but
`identity` may be attributes instead.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.ktdp.format import (
    parse_tensor_types,
    parse_type_of,
    parse_typed_operands,
    print_attributes,
    print_elided,
    print_typed_operands,
)
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType

CONSUMERS = "consumer_tiles_per_group"
DEPENDENCY = "producer_dependency_per_consumer"


def verify_core_set(cores: AffineSet, name: str, max_symbols: int) -> None:
    """Verify a set of flat core ids: one dim, with consumer and group ids as symbols."""
    if cores.num_dims != 1 or cores.num_symbols > max_symbols:
        raise VerifyException(
            f"{name} has {cores.num_dims} dims and {cores.num_symbols} symbols; expected one "
            f"dim, the core id, and at most {max_symbols} symbols"
        )


class DeliveryOperation(IRDLOperation, ABC):
    """Consumes a future and delivers tensors to the consumers of each group."""

    future = operand_def(TileFutureType)
    consumer_tiles_per_group = prop_def(AffineSetAttr)
    producer_dependency_per_consumer = opt_prop_def(AffineSetAttr)
    delivered = var_result_def(TensorType)

    DIMENSIONS: ClassVar[tuple[str, ...]] = ()
    """The clauses that list axes of the partial tensor."""

    HAS_DEPENDENCY: ClassVar[bool] = True

    def __init__(
        self,
        future: SSAValue,
        consumers: AffineSet,
        result_types: Sequence[Attribute],
        *,
        dependency: AffineSet | None = None,
        dimensions: Mapping[str, Sequence[int]] | None = None,
        identities: Sequence[SSAValue] = (),
        combiner: Region | None = None,
    ) -> None:
        properties: dict[str, Attribute | None] = {
            CONSUMERS: AffineSetAttr(consumers),
            DEPENDENCY: None if dependency is None else AffineSetAttr(dependency),
        }
        for name, axes in (dimensions or {}).items():
            properties[name] = DenseArrayBase.from_list(i64, axes)
        is_reduction = isinstance(self, ReductionOperation)
        super().__init__(
            operands=[future, identities] if is_reduction else [future],
            result_types=[result_types],
            properties=properties,
            regions=[combiner] if is_reduction else [],
        )

    @property
    def future_type(self) -> TileFutureType:
        assert isinstance(self.future.type, TileFutureType)
        return self.future.type

    def axes(self, name: str) -> tuple[int, ...]:
        """Return the axes of one of the DIMENSIONS clauses."""
        attribute = self.properties[name]
        assert isinstance(attribute, DenseArrayBase)
        return tuple(int(axis) for axis in attribute.get_values())

    def verify_delivery(self) -> None:
        verify_core_set(self.consumer_tiles_per_group.data, CONSUMERS, 1)
        if self.producer_dependency_per_consumer is not None:
            if not self.HAS_DEPENDENCY:
                raise VerifyException(f"has no clause {DEPENDENCY}")
            verify_core_set(self.producer_dependency_per_consumer.data, DEPENDENCY, 2)
        partials = self.future_type.partials
        if len(self.delivered) != len(partials):
            raise VerifyException(
                f"{len(self.delivered)} results, but the future has {len(partials)} tensors"
            )
        for name in self.DIMENSIONS:
            for partial in partials:
                assert isinstance(partial, TensorType)
                _verify_axes(name, self.axes(name), partial.get_num_dims())

    def verify_results_equal_partials(self) -> None:
        for result, partial in zip(self.delivered, self.future_type.partials, strict=True):
            if result.type != partial:
                raise VerifyException(f"result {result.type} differs from partial {partial}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        with parser.in_parens():
            future = parser.parse_unresolved_operand()
        start = parser.pos
        clauses, identities = _parse_clauses(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        future_value = parser.resolve_operand(future, parse_type_of(parser, TileFutureType))
        parser.parse_punctuation("->")
        result_types = parse_tensor_types(parser)
        is_reduction = issubclass(cls, ReductionOperation)
        region = parser.parse_region() if is_reduction else None
        known = {CONSUMERS, DEPENDENCY, *cls.DIMENSIONS}
        for name in clauses:
            if name not in known:
                parser.raise_error(f"{cls.name} has no clause {name}", start)
        values = clauses | {name: attributes.pop(name) for name in known & attributes.keys()}
        if identities is not None and not is_reduction:
            parser.raise_error(f"{cls.name} has no clause identity", start)
        for name in (CONSUMERS, *cls.DIMENSIONS):
            if name not in values:
                parser.raise_error(f"{cls.name}: {name} is missing", start)
        dependency = values.get(DEPENDENCY)
        operation = cls(
            future_value,
            _to_set(parser, CONSUMERS, values[CONSUMERS], start),
            result_types,
            dependency=None
            if dependency is None
            else _to_set(parser, DEPENDENCY, dependency, start),
            dimensions={
                name: _to_axes(parser, name, values[name], start) for name in cls.DIMENSIONS
            },
            identities=identities or (),
            combiner=region,
        )
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_operand(self.future)
        printer.print_string(f" {CONSUMERS} = ")
        printer.print_attribute(self.consumer_tiles_per_group)
        if self.producer_dependency_per_consumer is not None:
            printer.print_string(f", {DEPENDENCY} = ")
            printer.print_attribute(self.producer_dependency_per_consumer)
        for name in self.DIMENSIONS:
            printer.print_string(f", {name} = {list(self.axes(name))}")
        if isinstance(self, ReductionOperation):
            printer.print_string(", identity")
            print_typed_operands(printer, self.identities)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        print_elided(printer, self.future.type)
        printer.print_string(" -> ")
        printer.print_list(self.delivered.types, printer.print_attribute)
        if isinstance(self, ReductionOperation):
            printer.print_string(" ")
            printer.print_region(self.combiner)


class ReductionOperation(DeliveryOperation, ABC):
    """A delivery op that reduces, with a combiner and an identity for each tensor."""

    # Declared again because xDSL orders the operands of a class before those of its bases.
    future = operand_def(TileFutureType)
    identities = var_operand_def(TensorType)
    combiner = region_def("single_block")

    def verify_combiner(self) -> None:
        partials = self.future_type.partials
        if tuple(identity.type for identity in self.identities) != partials:
            raise VerifyException("identity must have one tensor of each type of the future")
        block = self.combiner.block
        if tuple(argument.type for argument in block.args) != partials * 2:
            raise VerifyException(
                "the arguments of the combiner must be the left and then the right tensors, of the "
                "future's types"
            )
        terminator = block.last_op
        if terminator is None or terminator.name != "ktdp.yield_reduced":
            raise VerifyException("the combiner must end with ktdp.yield_reduced")
        if tuple(value.type for value in terminator.operands) != partials:
            raise VerifyException("the combiner must yield one tensor of each type of the future")

    def verify_results_hold_partials(self) -> None:
        """Verify the element type and count of the results; their shape may differ."""
        for result, partial in zip(self.delivered, self.future_type.partials, strict=True):
            assert isinstance(partial, TensorType)
            is_same_type = result.type.element_type == partial.element_type
            if not is_same_type or not _has_same_count(result.type, partial):
                raise VerifyException(f"result {result.type} cannot hold partial {partial}")


def _has_same_count(left: TensorType[Attribute], right: TensorType[Attribute]) -> bool:
    if left.get_shape() == right.get_shape():
        return True
    sizes = []
    for shape in (left.get_shape(), right.get_shape()):
        size = 1
        for dim in shape:
            if dim < 0:
                return False
            size *= dim
        sizes.append(size)
    return sizes[0] == sizes[1]


def _verify_axes(name: str, axes: Sequence[int], rank: int) -> None:
    if not axes:
        raise VerifyException(f"{name} must not be empty")
    if list(axes) != sorted(set(axes)):
        raise VerifyException(f"{name} must be ascending and distinct, not {list(axes)}")
    if axes[0] < 0 or axes[-1] >= rank:
        raise VerifyException(f"{name} {list(axes)} are not axes of a tensor of rank {rank}")


def _parse_clauses(parser: Parser) -> tuple[dict[str, Attribute], list[SSAValue] | None]:
    clauses: dict[str, Attribute] = {}
    identities: list[SSAValue] | None = None
    while True:
        position = parser.pos
        name = parser.parse_optional_identifier()
        if name is None:
            return clauses, identities
        if name in clauses or (name == "identity" and identities is not None):
            parser.raise_error(f"{name} is specified twice", position)
        if name == "identity":
            identities = parse_typed_operands(parser)
        else:
            parser.parse_punctuation("=")
            clauses[name] = parser.parse_attribute()
        if parser.parse_optional_punctuation(",") is None:
            return clauses, identities


def _to_set(parser: Parser, name: str, attribute: Attribute, position: int) -> AffineSet:
    if not isinstance(attribute, AffineSetAttr):
        parser.raise_error(f"{name} must be an affine set", position)
    return attribute.data


def _to_axes(parser: Parser, name: str, attribute: Attribute, position: int) -> list[int]:
    if isinstance(attribute, DenseArrayBase):
        return [int(axis) for axis in attribute.get_values()]
    if not isinstance(attribute, ArrayAttr):
        parser.raise_error(f"{name} must be a list of axes", position)
    axes = []
    for axis in attribute:
        if not isinstance(axis, IntegerAttr):
            parser.raise_error(f"{name} must be a list of axes", position)
        axes.append(axis.value.data)
    return axes
