"""The listing of a program: its resources, and its instructions with their source locations."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch_spyre.backend.program.description import Field, fields_of
from torch_spyre.backend.program.fields import Role
from torch_spyre.backend.program.instructions import (
    Argument,
    Chain,
    ChainStep,
    FixedBuffer,
    Indexed,
    IndirectTransfer,
    Input,
    InputKind,
    Instruction,
    Literal,
    Lookup,
    LoopBegin,
    LoopEnd,
    Matmul,
    Operand,
    ProgramContent,
    PublishedTile,
    Receive,
    Reduce,
    Scalar,
    Sort,
    TableLookup,
    Transfer,
)
from torch_spyre.backend.program.naming import Names, comma_separated, shape, type_name

_SOURCE_COLUMN = 72
_SHOWN_VALUES = 8
# The user's lines of the OpSpecs, and of their loads through index tensors.
_Sources = tuple[Sequence[str], Sequence[str]]
_REGISTERS = (Role.SOURCE, Role.OPTIONAL_SOURCE, Role.DESTINATION)


def listing(
    content: ProgramContent, sources: Sequence[str] = (), index_sources: Sequence[str] = ()
) -> str:
    """Return a program as text.

    `sources` are the user's lines of the OpSpecs it comes from, and `index_sources` those of their
    loads through index tensors, which may be another op's; empty where they are unknown.
    """
    return "\n".join((*_header(content), "", *_code(content, (sources, index_sources)))) + "\n"


def _header(content: ProgramContent) -> Iterator[str]:
    cores = 1
    for size in content.grid:
        cores *= size
    plural = "core" if cores == 1 else "cores"
    yield f"program {content.name}"
    yield f"  grid        {shape(content.grid)}, {cores} {plural}"
    yield f"  scratchpad  {content.scratchpad_bytes} bytes"
    yield f"  registers   {content.registers}, {len(content.constants)} of them constants"
    if content.channels:
        yield f"  channels    {content.channels}"
    if content.arguments:
        yield "arguments"
        yield from _table([_argument(argument) for argument in content.arguments])
    if content.fixed_buffers:
        yield "fixed buffers"
        yield from _table([_buffer(buffer) for buffer in content.fixed_buffers])
    if content.tables:
        yield "tables, a list for each core"
        for number, lists in enumerate(content.tables):
            yield f"  {number}  {' '.join(f'({comma_separated(entries)})' for entries in lists)}"


def _argument(argument: Argument) -> tuple[str, ...]:
    kind = "array" if argument.is_array else "scalar"
    extents = shape(argument.shape) if argument.has_shape else ""
    register = f"r{argument.destination}"
    return f"%{argument.name}", register, kind, type_name(argument.type), extents


def _buffer(buffer: FixedBuffer) -> tuple[str, ...]:
    byte_range = f"[{buffer.address}, {buffer.address + buffer.bytes})"
    return f"%{buffer.name}", byte_range, type_name(buffer.type), shape(buffer.shape)


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _code(content: ProgramContent, sources: _Sources) -> Iterator[str]:
    writer = _Writer(Names(content))
    width = len(str(max(len(content.code) - 1, 0)))
    depth = 0
    for number, instruction in enumerate(content.code):
        if isinstance(instruction, LoopEnd):
            depth = max(depth - 1, 0)
        first, *more = writer.lines(instruction)
        indent = "  " * depth
        line = f"{number:>{width}}  {indent}{first}"
        yield f"{line:<{_SOURCE_COLUMN}}  ; {_source(content, instruction, sources)}"
        yield from (f"{' ' * width}  {indent}    {line}" for line in more)
        if isinstance(instruction, LoopBegin):
            depth += 1


def _source(content: ProgramContent, instruction: Instruction, sources: _Sources) -> str:
    """Return the op of an instruction, and its line and column or the number of its OpSpec."""
    if not 0 <= instruction.location < len(content.locations):
        return "unknown"
    location = content.locations[instruction.location]
    if location.line == 0:
        return location.op
    if location.column == 0:
        plain, indexed = (
            lines[location.line - 1] if location.line <= len(lines) else "" for lines in sources
        )
        is_indexed = isinstance(instruction, IndirectTransfer) and not instruction.store
        source = (is_indexed and indexed) or plain
        return f"{location.op} #{location.line} {source}".rstrip()
    return f"{location.op} {location.line}:{location.column}"


class _Writer:
    """Writes instructions as text: the first line, and the lines that belong to it."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def lines(self, instruction: Instruction) -> list[str]:
        """Return the lines of an instruction."""
        match instruction:
            case Transfer() | IndirectTransfer():
                return self._transfer(instruction)
            case Chain():
                return self._chain(instruction)
            case Reduce():
                return self._reduce(instruction)
        return [self._line(instruction)]

    def _line(self, instruction: Instruction) -> str:
        match instruction:
            case Scalar():
                return self._scalar(instruction)
            case Matmul():
                return self._matmul(instruction)
            case Receive():
                return self._receive(instruction)
            case Sort():
                return self._sort(instruction)
            case TableLookup():
                return self._table_lookup(instruction)
            case Literal():
                return self._literal(instruction)
            case Indexed():
                return self._indexed(instruction)
        if not instruction.form:
            raise AssertionError(f"no text for {instruction}")
        return instruction.form.format_map(
            {field.name: self._field(instruction, field) for field in fields_of(type(instruction))}
        )

    def _field(self, instruction: Instruction, field: Field) -> str:
        """Return the text of a field by its type."""
        value = getattr(instruction, field.name)
        values = value if field.type.limits else (value,)
        if field.type.role in _REGISTERS:
            return comma_separated(map(self.names.register, values))
        if field.type.item is Operand:
            # Operands of an instruction that is an iteration space have its extents.
            extents = getattr(instruction, "extents", None)
            return " ".join(self.names.operand(operand, extents) for operand in values)
        if field.type.item is PublishedTile:
            return " ".join(f"[{tile.address}, {tile.address + tile.bytes})" for tile in values)
        if isinstance(value, enum.Enum):
            return value.name.lower()
        return comma_separated(values)

    def _scalar(self, scalar: Scalar) -> str:
        inputs = comma_separated(
            self.names.register(register, scalar.operand) for register in scalar.inputs
        )
        result = self.names.register(scalar.destination)
        return f"{result} = {scalar.op} {inputs} : {_types(scalar)}"

    def _table_lookup(self, lookup: TableLookup) -> str:
        table = f"table {lookup.table} of this core"
        entry = f"length of {table}"
        if lookup.index >= 0:
            entry = f"entry {self.names.register(lookup.index)} of {table}"
        return f"{self.names.register(lookup.destination)} = {entry}"

    def _literal(self, literal: Literal) -> str:
        values = comma_separated(literal.values[:_SHOWN_VALUES])
        if len(literal.values) > _SHOWN_VALUES:
            values += f", ... ({len(literal.values)} values)"
        return f"{self.names.operand(literal.destination, None)} = {values}"

    def _indexed(self, indexed: Indexed) -> str:
        register, operand = self.names.register, self.names.operand
        tile = operand(indexed.tile, indexed.extents)
        index = operand(indexed.index, indexed.extents)
        lower = f"index - {register(indexed.first)}, of {register(indexed.length)}"
        table = f"{operand(indexed.table, indexed.extents)} + {indexed.step} * ({lower})"
        target, source = (table, tile) if indexed.scatter else (tile, table)
        combine = f" {indexed.combine}" if indexed.combine else ""
        return f"{target} ={combine} {source}, index {index} below {register(indexed.size)}"

    def _receive(self, receive: Receive) -> str:
        target = self.names.operand(receive.destination, receive.extents)
        source = f"core {self.names.register(receive.producer)}, tile {receive.role}"
        start = self.names.start(receive.source_offset)
        strides = f"{start} by {comma_separated(receive.source_strides)}"
        return f"receive {target} from {source}{strides} on channel {receive.channel}"

    def _sort(self, sort: Sort) -> str:
        operand, register = self.names.operand, self.names.register
        kept = (*sort.extents[:-1], sort.kept)
        sorted_keys = operand(sort.sorted_keys, kept)
        sorted_indices = operand(sort.sorted_indices, kept)
        keys, indices = operand(sort.keys, sort.extents), operand(sort.indices, sort.extents)
        order = "descending" if sort.descending else "ascending"
        return (
            f"sort {sorted_keys}, {sorted_indices} = {order} {keys}, {indices} "
            f"from {register(sort.first)} on, in runs of {sort.run}"
        )

    def _matmul(self, matmul: Matmul) -> str:
        operand = self.names.operand
        rows, columns, inner = matmul.rows, matmul.columns, matmul.inner
        left = operand(matmul.a, (matmul.batch, rows, inner))
        right = operand(matmul.b, (matmul.batch, inner, columns))
        output = operand(matmul.output, (matmul.batch, rows, columns))
        initial = ""
        if matmul.has_initial:
            initial = f"{operand(matmul.initial, (matmul.batch, rows, columns))} + "
        return f"matmul {output} = {initial}{left} x {right}"

    def _transfer(self, transfer: Transfer | IndirectTransfer) -> list[str]:
        verb, preposition = ("store", "to") if transfer.store else ("load", "from")
        if isinstance(transfer, Transfer):
            extents = transfer.extents
            views = [self.names.view(view) for view in transfer.views]
            coordinates = f"at ({comma_separated(map(self.names.register, transfer.anchor))})"
        else:
            extents = transfer.variables
            views = [self.names.view(transfer.view)]
            coordinates = f"at ({comma_separated(map(self.names.subscript, transfer.subscripts))})"
        if transfer.points:
            coordinates += ", a list of points"
        first = f"{verb} {self.names.operand(transfer.tile, extents)}"
        return [first, *(f"{preposition} {view}" for view in views), coordinates]

    def _chain(self, chain: Chain) -> list[str]:
        lines = [f"chain {self.names.extents(chain.extents)}", *self._values(chain)]
        for output in chain.outputs:
            lines.append(f"{self.names.operand(output.operand, chain.extents)} = %{output.value}")
        return lines

    def _reduce(self, reduce: Reduce) -> list[str]:
        along = f"along {comma_separated(reduce.reduced)}"
        lines = [f"reduce {self.names.extents(reduce.extents)} {along}", *self._values(reduce)]
        result_extents = [
            size for dim, size in enumerate(reduce.extents) if dim not in reduce.reduced
        ]

        def result_operand(operand: Operand) -> str:
            strides = tuple(
                stride for dim, stride in enumerate(operand.strides) if dim not in reduce.reduced
            )
            return self.names.operand(replace(operand, strides=strides), result_extents)

        values = comma_separated(f"%{value}" for value in reduce.values)
        start = f" from {' '.join(map(result_operand, reduce.initial))}" if reduce.initial else ""
        lines.append(f"fold {reduce.combine or 'the combiner'} of {values}{start}")
        # Accumulators come first, then the elements that are combined with them.
        number = 2 * len(reduce.values)
        for position, step in enumerate(reduce.combiner):
            lines.append(f"  {self._step(number + position, step, ())}")
        if not reduce.combine:
            lines.append(f"  yields {comma_separated(f'%{value}' for value in reduce.results)}")
        return [*lines, *(f"{result_operand(output)} = the result" for output in reduce.outputs)]

    def _values(self, chain: Chain | Reduce) -> Iterator[str]:
        """Yield one line for each value, numbered as the instruction numbers them."""
        for number, entry in enumerate(chain.inputs):
            yield f"%{number} = {self._input(entry, chain.extents)}"
        for number, step in enumerate(chain.steps, len(chain.inputs)):
            yield self._step(number, step, chain.lookups)

    def _input(self, entry: Input, extents: Sequence[int]) -> str:
        match entry.kind:
            case InputKind.SCALAR:
                value = self.names.register(entry.source, entry.type)
                return f"{value} : {type_name(entry.type)}"
            case InputKind.INDEX:
                return f"index {entry.dimension} : {type_name(entry.type)}"
        return self.names.operand(entry.operand, extents)

    def _step(self, number: int, step: ChainStep, lookups: Sequence[Lookup]) -> str:
        inputs = comma_separated(f"%{value}" for value in step.inputs)
        if 0 <= step.lookup < len(lookups):
            lookup = lookups[step.lookup]
            table = self.names.operand(lookup.operand, lookup.extents)
            return f"%{number} = element ({inputs}) of {table}"
        return f"%{number} = {step.op} {inputs} : {_types(step)}"


def _types(step: ChainStep | Scalar) -> str:
    operand, result = type_name(step.operand), type_name(step.result)
    return operand if operand == result else f"{operand} -> {result}"
