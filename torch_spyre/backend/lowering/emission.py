"""From nodes to instructions: addresses in the place of buffers, jumps in the place of regions."""

from dataclasses import replace

from torch_spyre.backend.lowering import nodes
from torch_spyre.backend.lowering.values import Buffer, Extent, TensorView
from torch_spyre.backend.program import instructions as program


class Emitter:
    def __init__(self, addresses: dict[Buffer, int]) -> None:
        self.addresses = addresses
        self.code: list[program.Instruction] = []

    def region(self, region: list[nodes.Node]) -> None:
        for node in region:
            self._node(node)

    def _node(self, node: nodes.Node) -> None:
        match node:
            case nodes.Plain():
                self.code.append(node.instruction)
            case nodes.For():
                self._loop(node)
            case nodes.If():
                self._branch(node)
            case _:
                self.code.append(self._instruction(node))

    def _loop(self, node: nodes.For) -> None:
        begin = len(self.code)
        self.code.append(program.Jump(node.place, 0))
        self.region(node.body)
        end = len(self.code)
        self.code.append(program.LoopEnd(node.place, begin))
        self.code[begin] = program.LoopBegin(
            node.place, node.variable, node.lower, node.upper, node.step, end
        )

    def _branch(self, node: nodes.If) -> None:
        begin = len(self.code)
        self.code.append(program.Jump(node.place, 0))
        self.region(node.then)
        if node.otherwise:
            skip = len(self.code)
            self.code.append(program.Jump(node.place, 0))
            self.code[begin] = program.Branch(node.place, node.condition, len(self.code))
            self.region(node.otherwise)
            self.code[skip] = program.Jump(node.place, len(self.code))
        else:
            self.code[begin] = program.Branch(node.place, node.condition, len(self.code))

    def _instruction(self, node: nodes.Node) -> program.Instruction:
        place = node.place
        match node:
            case nodes.ExtractElement():
                extents = _registers(node.source.extents)
                source = self._operand(node.source)
                return program.Extract(place, node.destination, source, node.indices, extents)
            case nodes.TileTransfer():
                return program.Transfer(
                    place,
                    node.store,
                    self._operand(node.tile),
                    _registers(node.extents),
                    node.anchor,
                    node.views,
                    node.points,
                )
            case nodes.IndirectTile():
                return program.IndirectTransfer(
                    place,
                    node.store,
                    self._operand(node.tile),
                    _registers(node.variables),
                    node.view,
                    node.subscripts,
                    node.points,
                )
            case nodes.Elementwise():
                return program.Chain(
                    place,
                    _registers(node.extents),
                    self._inputs(node),
                    tuple(node.steps),
                    self._lookups(node),
                    tuple(
                        program.ChainOutput(output.value, self._operand(output.tensor))
                        for output in node.outputs
                    ),
                )
            case nodes.Reduction():
                return program.Reduce(
                    place,
                    _registers(node.chain.extents),
                    self._inputs(node.chain),
                    tuple(node.chain.steps),
                    self._lookups(node.chain),
                    node.reduced,
                    node.values,
                    node.combine,
                    node.combiner,
                    node.results,
                    tuple(self._operand(found) for found in node.initial),
                    tuple(self._operand(found) for found in node.outputs),
                )
            case nodes.Product():
                initial = node.initial if node.initial is not None else node.output
                return program.MatrixProduct(
                    place,
                    node.batch.register,
                    node.rows.register,
                    node.columns.register,
                    node.inner.register,
                    self._operand(node.a),
                    self._operand(node.b),
                    node.initial is not None,
                    self._operand(initial),
                    self._operand(node.output),
                )
            case nodes.CopyTensor():
                return program.Copy(
                    place,
                    _registers(node.destination.extents),
                    self._operand(node.source),
                    self._operand(node.destination),
                )
            case nodes.WriteLiteral():
                destination = replace(self._operand(node.destination), strides=(1,))
                return program.Literal(place, destination, node.values)
            case nodes.PublishTiles():
                return program.Publish(
                    place,
                    node.channel,
                    tuple(self._published(tile) for tile in node.tiles),
                )
            case nodes.ReceiveTile():
                return program.Receive(
                    place,
                    node.channel,
                    node.role,
                    node.producer,
                    node.source_offset,
                    node.source_strides,
                    self._operand(node.destination),
                    _registers(node.extents),
                )
            case nodes.EndDelivery():
                return program.Delivered(
                    place, node.channel, node.kind, node.cores, node.tile_bytes
                )
        raise AssertionError(f"no instruction for {node}")

    def _operand(self, tensor: TensorView) -> program.Operand:
        skipped = tensor.offset * tensor.type.bytes
        return program.Operand(
            self.addresses[tensor.buffer] + skipped,
            max(tensor.buffer.bytes - skipped, 0),
            tensor.type,
            tensor.offset_register,
            tensor.strides,
        )

    def _inputs(self, chain: nodes.Elementwise) -> tuple[program.Input, ...]:
        nothing = program.Operand(0, 0, program.ElementType.F16)
        found = []
        for entry in chain.inputs:
            match entry:
                case TensorView():
                    operand = self._operand(entry)
                    found.append(program.Input(program.InputKind.OPERAND, operand, entry.type))
                case nodes.ScalarInput():
                    found.append(
                        program.Input(program.InputKind.SCALAR, nothing, entry.type, entry.register)
                    )
                case nodes.IndexInput():
                    found.append(
                        program.Input(
                            program.InputKind.INDEX,
                            nothing,
                            program.ElementType.I64,
                            program.NO_REGISTER,
                            entry.dimension,
                        )
                    )
        return tuple(found)

    def _lookups(self, chain: nodes.Elementwise) -> tuple[program.Lookup, ...]:
        return tuple(
            program.Lookup(self._operand(found), _registers(found.extents))
            for found in chain.lookups
        )

    def _published(self, tile: TensorView) -> program.PublishedTile:
        return program.PublishedTile(
            self.addresses[tile.buffer] + tile.offset * tile.type.bytes, tile.buffer.bytes
        )


def _registers(extents: tuple[Extent, ...]) -> tuple[int, ...]:
    return tuple(extent.register for extent in extents)
