"""A program as people read it: what it needs, and its instructions with where they come from."""

from collections.abc import Iterator, Sequence

from torch_spyre.backend.program.instructions import (
    Argument,
    Branch,
    Chain,
    ChainStep,
    Copy,
    Delivered,
    Extract,
    FixedBuffer,
    IndirectTransfer,
    Input,
    InputKind,
    Instruction,
    Jump,
    Literal,
    Lookup,
    LoopBegin,
    LoopEnd,
    MatrixProduct,
    Move,
    Operand,
    ProgramContent,
    Publish,
    Receive,
    Reduce,
    Scalar,
    TableLookup,
    Transfer,
)
from torch_spyre.backend.program.naming import Names, by, shape, type_name

_SOURCE_COLUMN = 72
_SHOWN_VALUES = 8


def listing(content: ProgramContent) -> str:
    return "\n".join((*_header(content), "", *_code(content))) + "\n"


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
            yield f"  {number}  {' '.join(f'({by(found)})' for found in lists)}"


def _argument(argument: Argument) -> tuple[str, ...]:
    kind = "array" if argument.is_array else "scalar"
    extents = shape(argument.shape) if argument.has_shape else ""
    register = f"r{argument.register}"
    return f"%{argument.name}", register, kind, type_name(argument.type), extents


def _buffer(buffer: FixedBuffer) -> tuple[str, ...]:
    stretch = f"[{buffer.address}, {buffer.address + buffer.bytes})"
    return f"%{buffer.name}", stretch, type_name(buffer.type), shape(buffer.shape)


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _code(content: ProgramContent) -> Iterator[str]:
    writer = _Writer(Names(content))
    width = len(str(max(len(content.code) - 1, 0)))
    depth = 0
    for number, instruction in enumerate(content.code):
        if isinstance(instruction, LoopEnd):
            depth = max(depth - 1, 0)
        first, *more = writer.lines(instruction)
        indent = "  " * depth
        line = f"{number:>{width}}  {indent}{first}"
        yield f"{line:<{_SOURCE_COLUMN}}  ; {_source(content, instruction)}"
        yield from (f"{' ' * width}  {indent}    {line}" for line in more)
        if isinstance(instruction, LoopBegin):
            depth += 1


def _source(content: ProgramContent, instruction: Instruction) -> str:
    if not 0 <= instruction.place < len(content.places):
        return "unknown"
    place = content.places[instruction.place]
    return f"{place.op} {place.line}:{place.column}"


class _Writer:
    """Instructions as text: the first line, and lines that belong under it."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def lines(self, instruction: Instruction) -> list[str]:
        match instruction:
            case Transfer() | IndirectTransfer():
                return self._transfer(instruction)
            case Chain():
                return self._chain(instruction)
            case Reduce():
                return self._reduce(instruction)
        return [self._line(instruction)]

    def _line(self, instruction: Instruction) -> str:
        name, operand = self.names.register, self.names.operand
        match instruction:
            case LoopBegin():
                bounds = f"{name(instruction.lower)} to {name(instruction.upper)}"
                return f"for {name(instruction.variable)} = {bounds} step {name(instruction.step)}"
            case LoopEnd():
                return f"next {instruction.begin}"
            case Branch():
                return f"unless {name(instruction.condition)} goto {instruction.target}"
            case Jump():
                return f"goto {instruction.target}"
            case Scalar():
                types = _types(instruction)
                inputs = (name(found, instruction.operand) for found in instruction.inputs)
                result = name(instruction.destination)
                return f"{result} = {instruction.op} {', '.join(inputs)} : {types}"
            case Move():
                return f"{name(instruction.destination)} = {name(instruction.source)}"
            case Extract():
                source = operand(instruction.source, instruction.extents)
                point = by(map(name, instruction.indices))
                return f"{name(instruction.destination)} = element ({point}) of {source}"
            case MatrixProduct():
                return self._product(instruction)
            case Copy():
                source = operand(instruction.source, instruction.extents)
                return f"copy {source} to {operand(instruction.destination, instruction.extents)}"
            case Literal():
                shown = by(instruction.values[:_SHOWN_VALUES])
                if len(instruction.values) > _SHOWN_VALUES:
                    shown += f", ... ({len(instruction.values)} values)"
                return f"{operand(instruction.destination, None)} = {shown}"
            case TableLookup():
                table = f"table {instruction.table} of this core"
                found = f"length of {table}"
                if instruction.index >= 0:
                    found = f"entry {name(instruction.index)} of {table}"
                return f"{name(instruction.destination)} = {found}"
        return self._message(instruction)

    def _message(self, instruction: Instruction) -> str:
        match instruction:
            case Publish():
                tiles = (
                    f"[{tile.address}, {tile.address + tile.bytes})" for tile in instruction.tiles
                )
                return f"publish {' '.join(tiles)} on channel {instruction.channel}"
            case Receive():
                register = self.names.register
                target = self.names.operand(instruction.destination, instruction.extents)
                source = f"core {register(instruction.producer)}, tile {instruction.role}"
                start = self.names.start(instruction.source_offset)
                walk = f"{start} by {by(instruction.source_strides)}"
                channel = f"channel {instruction.channel}"
                return f"receive {target} from {source}{walk} on {channel}"
            case Delivered():
                kind = instruction.kind.name.lower()
                size = f"{instruction.cores} cores, {instruction.tile_bytes} bytes each"
                return f"delivered {kind} on channel {instruction.channel}: {size}"
        raise AssertionError(f"no text for {instruction}")

    def _product(self, product: MatrixProduct) -> str:
        operand = self.names.operand
        rows, columns, inner = product.rows, product.columns, product.inner
        left = operand(product.a, (product.batch, rows, inner))
        right = operand(product.b, (product.batch, inner, columns))
        output = operand(product.output, (product.batch, rows, columns))
        initial = ""
        if product.has_initial:
            initial = f"{operand(product.initial, (product.batch, rows, columns))} + "
        return f"matmul {output} = {initial}{left} x {right}"

    def _transfer(self, transfer: Transfer | IndirectTransfer) -> list[str]:
        verb, preposition = ("store", "to") if transfer.store else ("load", "from")
        if isinstance(transfer, Transfer):
            extents = transfer.extents
            places = [self.names.view(view) for view in transfer.views]
            where = f"at ({by(map(self.names.register, transfer.anchor))})"
        else:
            extents = transfer.variables
            places = [self.names.view(transfer.view)]
            where = f"at ({by(map(self.names.subscript, transfer.subscripts))})"
        if transfer.points:
            where += ", a list of points"
        first = f"{verb} {self.names.operand(transfer.tile, extents)}"
        return [first, *(f"{preposition} {place}" for place in places), where]

    def _chain(self, chain: Chain) -> list[str]:
        lines = [f"chain {self.names.extents(chain.extents)}", *self._values(chain)]
        for output in chain.outputs:
            lines.append(f"{self.names.operand(output.operand, chain.extents)} = %{output.value}")
        return lines

    def _reduce(self, reduce: Reduce) -> list[str]:
        along = f"along {by(reduce.reduced)}"
        lines = [f"reduce {self.names.extents(reduce.extents)} {along}", *self._values(reduce)]
        kept = [size for dim, size in enumerate(reduce.extents) if dim not in reduce.reduced]

        def folded(operand: Operand) -> str:
            strides = operand.strides
            walk = tuple(found for dim, found in enumerate(strides) if dim not in reduce.reduced)
            without = Operand(operand.address, operand.bytes, operand.type, operand.offset, walk)
            return self.names.operand(without, kept)

        values = by(f"%{value}" for value in reduce.values)
        start = f" from {' '.join(map(folded, reduce.initial))}" if reduce.initial else ""
        lines.append(f"fold {reduce.combine or 'the combiner'} of {values}{start}")
        # Accumulators come first, then the elements folded in.
        number = 2 * len(reduce.values)
        for position, step in enumerate(reduce.combiner):
            lines.append(f"  {self._step(number + position, step, ())}")
        if not reduce.combine:
            lines.append(f"  yields {by(f'%{value}' for value in reduce.results)}")
        return [*lines, *(f"{folded(output)} = the result" for output in reduce.outputs)]

    def _values(self, chain: Chain | Reduce) -> Iterator[str]:
        """One line for each value, numbered as the instruction numbers them."""
        for number, found in enumerate(chain.inputs):
            yield f"%{number} = {self._input(found, chain.extents)}"
        for number, step in enumerate(chain.steps, len(chain.inputs)):
            yield self._step(number, step, chain.lookups)

    def _input(self, found: Input, extents: Sequence[int]) -> str:
        match found.kind:
            case InputKind.SCALAR:
                value = self.names.register(found.source, found.type)
                return f"{value} : {type_name(found.type)}"
            case InputKind.INDEX:
                return f"index {found.dimension} : {type_name(found.type)}"
        return self.names.operand(found.operand, extents)

    def _step(self, number: int, step: ChainStep, lookups: Sequence[Lookup]) -> str:
        inputs = by(f"%{value}" for value in step.inputs)
        if 0 <= step.lookup < len(lookups):
            found = lookups[step.lookup]
            table = self.names.operand(found.operand, found.extents)
            return f"%{number} = element ({inputs}) of {table}"
        return f"%{number} = {step.op} {inputs} : {_types(step)}"


def _types(step: ChainStep | Scalar) -> str:
    operand, result = type_name(step.operand), type_name(step.result)
    return operand if operand == result else f"{operand} -> {result}"
