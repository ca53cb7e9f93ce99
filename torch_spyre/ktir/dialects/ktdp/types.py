"""Types of the `ktdp` dialect, and their elided form `<...>` that ops print."""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineSetAttr,
    AnyFloat,
    ArrayAttr,
    IndexType,
    IntAttr,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.ir.affine import AffineSet
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class AccessTileType(ParametrizedAttribute, TypeAttribute):
    """`!ktdp.access_tile<2x64xindex>`: coordinates, ranked; a dim may be `?`."""

    name = "ktdp.access_tile"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute

    def __init__(self, shape: Sequence[int], element_type: Attribute | None = None) -> None:
        super().__init__(ArrayAttr([IntAttr(dim) for dim in shape]), element_type or IndexType())

    def get_shape(self) -> tuple[int, ...]:
        return tuple(dim.data for dim in self.shape)

    def verify(self) -> None:
        if not isinstance(self.element_type, IndexType):
            raise VerifyException("ktdp.access_tile: tile element type must be 'index'")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_ranked_shape()
        return ArrayAttr([IntAttr(dim) for dim in shape]), element_type

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_dimension_list(self.get_shape())
            if len(self.shape):
                printer.print_string("x")
            printer.print_attribute(self.element_type)


@irdl_attr_definition
class RuntimeArgType(ParametrizedAttribute, TypeAttribute):
    """`!ktdp.runtime_arg<i32, granularity=64, upperbound=4096>`: a value known at launch."""

    name = "ktdp.runtime_arg"

    underlying_type: Attribute
    step: IntAttr | NoneAttr
    maximum: IntAttr | NoneAttr

    def __init__(
        self,
        underlying_type: Attribute,
        granularity: int | None = None,
        upperbound: int | None = None,
    ) -> None:
        super().__init__(
            underlying_type,
            NoneAttr() if granularity is None else IntAttr(granularity),
            NoneAttr() if upperbound is None else IntAttr(upperbound),
        )

    @property
    def granularity(self) -> int | None:
        return self.step.data if isinstance(self.step, IntAttr) else None

    @property
    def upperbound(self) -> int | None:
        return self.maximum.data if isinstance(self.maximum, IntAttr) else None

    def verify(self) -> None:
        if not isinstance(self.underlying_type, IndexType | IntegerType | AnyFloat):
            raise VerifyException(
                "ktdp.runtime_arg: the type must be index, an integer or a float, "
                f"not {self.underlying_type}"
            )
        for keyword in ("granularity", "upperbound"):
            value = self.granularity if keyword == "granularity" else self.upperbound
            if value is not None and value <= 0:
                raise VerifyException(f"ktdp.runtime_arg: {keyword} must be positive, not {value}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        limits: dict[str, IntAttr] = {}
        with parser.in_angle_brackets():
            underlying_type = parser.parse_type()
            while parser.parse_optional_punctuation(",") is not None:
                position = parser.pos
                keyword = parser.parse_keyword_in(("granularity", "upperbound"))
                if keyword in limits:
                    parser.raise_error(f"ktdp.runtime_arg: {keyword} is specified twice", position)
                parser.parse_punctuation("=")
                limits[keyword] = IntAttr(parser.parse_integer(allow_boolean=False))
        absent = NoneAttr()
        return underlying_type, limits.get("granularity", absent), limits.get("upperbound", absent)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.underlying_type)
            if self.granularity is not None:
                printer.print_string(f", granularity={self.granularity}")
            if self.upperbound is not None:
                printer.print_string(f", upperbound={self.upperbound}")


@irdl_attr_definition
class TileFutureType(ParametrizedAttribute, TypeAttribute):
    """`!ktdp.tile_future<(T1, ...), groups = SET>`: a future of the partials of groups of cores."""

    name = "ktdp.tile_future"

    partial_types: ArrayAttr[Attribute]
    group_set: AffineSetAttr

    def __init__(self, partial_types: Sequence[Attribute], groups: AffineSet) -> None:
        super().__init__(ArrayAttr(partial_types), AffineSetAttr(groups))

    @property
    def partials(self) -> tuple[Attribute, ...]:
        return self.partial_types.data

    @property
    def groups(self) -> AffineSet:
        return self.group_set.data

    def verify(self) -> None:
        if not self.partials:
            raise VerifyException("ktdp.tile_future: at least one tensor type is required")
        for partial in self.partials:
            if not isinstance(partial, TensorType):
                raise VerifyException(
                    f"ktdp.tile_future: partials are ranked tensors, not {partial}"
                )
        if self.groups.num_dims != 1 or self.groups.num_symbols:
            raise VerifyException("ktdp.tile_future: groups must have one dim and no symbols")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            partials: list[Attribute] | None = parser.parse_optional_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_attribute
            )
            if partials is None:
                # The older spelling lists the types without parentheses, up to `groups` or a set.
                partials = [parser.parse_type()]
                while True:
                    parser.parse_punctuation(",")
                    partial = parser.parse_optional_type()
                    if partial is None:
                        break
                    partials.append(partial)
            else:
                parser.parse_punctuation(",")
            if parser.parse_optional_keyword("groups") is not None:
                parser.parse_punctuation("=")
            position = parser.pos
            groups = parser.parse_attribute()
            if not isinstance(groups, AffineSetAttr):
                parser.raise_error("ktdp.tile_future: groups must be an affine set", position)
        return ArrayAttr(partials), groups

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            with printer.in_parens():
                printer.print_list(self.partials, printer.print_attribute)
            printer.print_string(", groups = ")
            printer.print_attribute(self.group_set)
