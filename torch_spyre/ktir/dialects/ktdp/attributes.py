"""Attributes of the `ktdp` dialect: memory spaces, and the kinds of runtime argument extracts."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, NoneAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum


class Visibility(StrEnum):
    """The visibility of a memory: to all compute tiles (device memory) or one (LX scratchpad)."""

    GLOBAL = "global"
    CT_LOCAL = "ct_local"


class SpyreMemory(StrEnum):
    """The memories of the older, RFC spelling."""

    HBM = "HBM"
    LX = "LX"
    L0 = "L0"
    UNSPECIFIED = "unspecified"


class ExtractKind(StrEnum):
    """The property of a runtime argument that `ktdp.runtime_arg_extract` returns."""

    VALUE = "value"
    GRANULARITY = "granularity"
    UPPERBOUND = "upperbound"


@irdl_attr_definition
class ExtractKindAttr(EnumAttribute[ExtractKind], SpacedOpaqueSyntaxAttribute):
    name = "ktdp.extract_kind"


def _parse_space(
    parser: AttrParser, names: type[StrEnum], selector: str
) -> tuple[str, IntAttr | NoneAttr]:
    """`<` name [`,` selector `=` integer] `>`"""
    with parser.in_angle_brackets():
        name = parser.parse_keyword_in([kind.value for kind in names])
        if parser.parse_optional_punctuation(",") is None:
            return name, NoneAttr()
        parser.parse_keyword(selector)
        parser.parse_punctuation("=")
        return name, IntAttr(parser.parse_integer(allow_boolean=False))


def _print_space(printer: Printer, name: str, selector: str, index: int | None) -> None:
    with printer.in_angle_brackets():
        printer.print_string(name)
        if index is not None:
            printer.print_string(f", {selector} = {index}")


@irdl_attr_definition
class MemorySpaceAttr(ParametrizedAttribute):
    """`#ktdp.memory_space<global>`, `<ct_local>` (the core's own LX), `<ct_local, ct_id = 7>`."""

    name = "ktdp.memory_space"

    kind: IntAttr
    compute_tile: IntAttr | NoneAttr

    def __init__(self, visibility: Visibility, ct_id: int | None = None) -> None:
        super().__init__(
            IntAttr(list(Visibility).index(visibility)),
            NoneAttr() if ct_id is None else IntAttr(ct_id),
        )

    @property
    def visibility(self) -> Visibility:
        return list(Visibility)[self.kind.data]

    @property
    def ct_id(self) -> int | None:
        return self.compute_tile.data if isinstance(self.compute_tile, IntAttr) else None

    def verify(self) -> None:
        if self.ct_id is None:
            return
        if self.visibility is not Visibility.CT_LOCAL:
            raise VerifyException("ktdp.memory_space: ct_id is allowed for ct_local only")
        if self.ct_id < 0:
            raise VerifyException("ktdp.memory_space: ct_id must not be negative")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        name, ct_id = _parse_space(parser, Visibility, "ct_id")
        return IntAttr(list(Visibility).index(Visibility(name))), ct_id

    def print_parameters(self, printer: Printer) -> None:
        _print_space(printer, self.visibility.value, "ct_id", self.ct_id)


@irdl_attr_definition
class SpyreMemorySpaceAttr(ParametrizedAttribute):
    """The RFC spelling: `#ktdp.spyre_memory_space<HBM|LX|L0|unspecified[, core = N]>`."""

    name = "ktdp.spyre_memory_space"

    kind: IntAttr
    core_index: IntAttr | NoneAttr

    def __init__(self, memory: SpyreMemory, core: int | None = None) -> None:
        super().__init__(
            IntAttr(list(SpyreMemory).index(memory)), NoneAttr() if core is None else IntAttr(core)
        )

    @property
    def memory(self) -> SpyreMemory:
        return list(SpyreMemory)[self.kind.data]

    @property
    def core(self) -> int | None:
        return self.core_index.data if isinstance(self.core_index, IntAttr) else None

    def canonical(self) -> Attribute:
        """Return the current spelling; L0 and unspecified have none and are returned unchanged."""
        match self.memory:
            case SpyreMemory.HBM:
                return MemorySpaceAttr(Visibility.GLOBAL)
            case SpyreMemory.LX:
                return MemorySpaceAttr(Visibility.CT_LOCAL, self.core)
            case _:
                return self

    def verify(self) -> None:
        if self.core is None:
            return
        if self.memory not in (SpyreMemory.LX, SpyreMemory.L0):
            raise VerifyException("ktdp.spyre_memory_space: core is allowed for LX and L0 only")
        if self.core < 0:
            raise VerifyException("ktdp.spyre_memory_space: core must not be negative")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        name, core = _parse_space(parser, SpyreMemory, "core")
        return IntAttr(list(SpyreMemory).index(SpyreMemory(name))), core

    def print_parameters(self, printer: Printer) -> None:
        _print_space(printer, self.memory.value, "core", self.core)
