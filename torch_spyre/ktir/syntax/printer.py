"""The KTIR printer: values keep their names, affine maps and sets become aliases at the top."""

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

from torch_spyre.ktir.locations import source_of
from torch_spyre.ktir.syntax.affine_format import format_map, format_set


@dataclass(eq=False, repr=False)
class KtirPrinter(Printer):
    """Prints maps and sets inline, unless `aliases` is a dictionary that collects them.

    With `has_sources`, the source of each op follows it as `loc(...)`.
    """

    aliases: dict[Attribute, str] | None = field(default=None, kw_only=True)
    has_sources: bool = field(default=False, kw_only=True)
    _alias_counts: dict[str, int] = field(default_factory=dict, init=False)

    def print_ssa_value(self, value: SSAValue) -> str:
        name = value_name(self, value)
        self.print_string(f"%{name}")
        return name

    def print_op(self, op: Operation) -> None:
        """Print an op, without the dialect name where MLIR omits it."""
        if isinstance(op, ModuleOp | ReturnOp) and not self.print_generic_format:
            self.print_string(op.name.partition(".")[2])
            op.print(self)
        else:
            super().print_op(op)
        source = source_of(op) if self.has_sources else None
        if source is not None:
            self.print_string(f" loc({self._alias_of(source, 'loc')})")

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_dense(attribute)
            return
        if isinstance(attribute, ArrayAttr):
            with self.in_square_brackets():
                self.print_list(attribute, self._print_element)
            return
        if not isinstance(attribute, AffineMapAttr | AffineSetAttr):
            super().print_attribute(attribute)
            return
        if self.aliases is None:
            self.print_string(_format(attribute))
            return
        self.print_string(
            self._alias_of(attribute, "map" if isinstance(attribute, AffineMapAttr) else "set")
        )

    def _alias_of(self, attribute: Attribute, stem: str) -> str:
        """Return the alias of an attribute, which is created on its first use."""
        assert self.aliases is not None
        alias = self.aliases.get(attribute)
        if alias is None:
            count = self._alias_counts.get(stem, 0)
            self._alias_counts[stem] = count + 1
            alias = self.aliases[attribute] = f"#{stem}{count or ''}"
        return alias

    def _print_element(self, element: Attribute) -> None:
        """Print an element of an array; i64 integers need no type there."""
        if isinstance(element, IntegerAttr) and element.type == i64:
            self.print_int(element.value.data)
        else:
            self.print_attribute(element)

    def _print_dense(self, attribute: DenseIntOrFPElementsAttr[Any]) -> None:
        """Print a dense constant; splats are detected by bytes, because of signed zeros and NaN."""
        data = attribute.data.data
        size = attribute.type.element_type.compile_time_size
        is_splat = data == data[:size] * (len(data) // size)
        values = attribute.type.element_type.unpack(data, len(data) // size)
        if is_splat and data:
            self.print_string("dense<")
            attribute._print_one_elem(values[0], self)
            self.print_string("> : ")
        elif data and (len(values) > 100 or values.count(values[0]) == len(values)):
            self.print_string(f'dense<"0x{data.hex().upper()}"> : ')
        else:
            attribute.print_builtin(self)
            return
        self.print_attribute(attribute.type)


def value_name(printer: Printer, value: SSAValue) -> str:
    """Return the name a printer uses for a value; assign one if the value has none yet."""
    name = printer._ssa_values.get(value)
    if name is None:
        name = _unused_name(printer, value.name_hint)
        printer._ssa_values[value] = name
    return name


def _unused_name(printer: Printer, hint: str | None) -> str:
    used = printer.ssa_names
    if hint is None:
        return printer._get_new_valid_name_id()
    name = hint
    while name in used:
        used[hint] += 1
        name = f"{hint}_{used[hint]}"
    used[name] = 0
    return name


def _format(attribute: Attribute) -> str:
    if isinstance(attribute, AffineMapAttr):
        return format_map(attribute.data)
    if isinstance(attribute, AffineSetAttr):
        return format_set(attribute.data)
    return str(attribute)


def print_module(module: Operation, *, has_sources: bool = True) -> str:
    """Return the text of a module, with the definitions of its aliases first.

    Without sources it is the same for a kernel that was compiled from other lines.
    """
    stream = StringIO()
    aliases: dict[Attribute, str] = {}
    KtirPrinter(stream, aliases=aliases, has_sources=has_sources).print_op(module)
    lines = [f"{alias} = {_format(attribute)}\n" for attribute, alias in aliases.items()]
    return "".join(lines) + stream.getvalue() + "\n"


def print_operation(operation: Operation) -> str:
    """Return the text of one op, with maps and sets inline."""
    stream = StringIO()
    KtirPrinter(stream).print_op(operation)
    return stream.getvalue()
