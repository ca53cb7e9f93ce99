"""Runs the cores of a kernel, one op after the other; cores wait for each other where they deliver.

A core is a coroutine: it yields while a delivery lacks the partials of other cores.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import scf, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from torch_spyre.errors import KtirError
from torch_spyre.ktir.affine import contains
from torch_spyre.ktir.dialects import linalg as ktir_linalg
from torch_spyre.ktir.dialects.indexed import GatherOp, ScatterOp
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import ConstructIndirectAccessTileOp
from torch_spyre.ktir.dialects.ktdp.inter_tile import InterTileProduceOp, InterTileReduceOp
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import GetComputeTileIdOp, LoadOp, StoreOp
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType
from torch_spyre.ktir.dialects.ktdp.views import ConstructMemoryViewOp
from torch_spyre.ktir.dialects.spyreop import SortOp
from torch_spyre.ktir.interpreter import tensors
from torch_spyre.ktir.interpreter.memory import DeviceMemory, Tile, View, direct_tile, indirect_tile
from torch_spyre.ktir.interpreter.numbers import apply, is_float
from torch_spyre.ktir.interpreter.tensors import element_name, shape_of

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function

Values = dict[SSAValue, Any]
Steps = Generator[None, None, list[Any]]


def interpret(function: "Function", arrays: Sequence[NDArray[np.uint8]]) -> None:
    """Run a function on its arguments, arrays of bytes in device format, which it changes.

    Raise KtirError for an op that the interpreter does not have.
    """
    if len(arrays) != len(function.arguments):
        raise KtirError(
            f"{function.name} takes {len(function.arguments)} arguments, and {len(arrays)} are "
            "given"
        )
    memory = DeviceMemory(arrays)
    mailbox: dict[tuple[int, SSAValue, int], list[Any]] = {}
    cores = [_Core(function, memory, mailbox, number) for number in range(function.cores)]
    running = [core.run() for core in cores]
    while running:
        waiting = [steps for steps in running if not _finishes(steps)]
        if len(waiting) == len(running) and not any(core.takes_progress() for core in cores):
            raise KtirError(f"{function.name}: its cores wait for each other")
        running = waiting


def _finishes(steps: Generator[None, None, None]) -> bool:
    """Continue a core; return whether it has run to its end."""
    try:
        next(steps)
    except StopIteration:
        return True
    return False


class _Core:
    """One core: its coordinates, and the values that it has computed."""

    def __init__(
        self,
        function: "Function",
        memory: DeviceMemory,
        mailbox: dict[tuple[int, SSAValue, int], list[Any]],
        number: int,
    ) -> None:
        self.function, self.memory, self.mailbox, self.number = function, memory, mailbox, number
        # How often the core has produced each future.
        self.productions: dict[SSAValue, int] = {}
        self._has_progress = True

    def takes_progress(self) -> bool:
        """Return whether the core has executed an op since the last call."""
        has_progress, self._has_progress = self._has_progress, False
        return has_progress

    def run(self) -> Generator[None, None, None]:
        block = self.function.operation.body.block
        addresses = [DeviceMemory.address_of(index) for index in range(len(block.args))]
        yield from self._block(block, addresses, {})

    def _block(
        self, block: Block, arguments: Sequence[Any], outer: Mapping[SSAValue, Any]
    ) -> Steps:
        """Run a block; return the values of its terminator."""
        values: Values = {**outer, **dict(zip(block.args, arguments, strict=True))}
        for operation in block.ops:
            self._has_progress = True
            if operation.has_trait(IsTerminator):
                return [values[operand] for operand in operation.operands]
            results = yield from self._execute(operation, values)
            values.update(zip(operation.results, results, strict=True))
        return []

    def _pure(self, region: Region, arguments: Sequence[Any], outer: Values) -> list[Any]:
        """Run a region that does not wait for other cores."""
        steps = self._block(region.block, arguments, outer)
        try:
            next(steps)
        except StopIteration as end:
            results: list[Any] = end.value
            return results
        raise KtirError("a delivery inside of a region")

    def _execute(self, operation: Operation, values: Values) -> Steps:
        match operation:
            case scf.ForOp():
                return (yield from self._for(operation, values))
            case scf.IfOp():
                region = operation.true_region
                if not int(values[operation.cond]):
                    region = operation.false_region
                return (yield from self._block(region.block, [], values)) if region.blocks else []
            case InterTileProduceOp():
                return self._produce(operation, values)
            case InterTileReduceOp():
                return (yield from self._reduce(operation, values))
        return self._local(operation, values)

    def _for(self, operation: scf.ForOp, values: Values) -> Steps:
        carried = [values[value] for value in operation.iter_args]
        bounds = (int(values[value]) for value in (operation.lb, operation.ub, operation.step))
        for index in range(*bounds):
            carried = yield from self._block(operation.body.block, [index, *carried], values)
        return carried

    # Communication

    def _produce(self, operation: InterTileProduceOp, values: Values) -> list[Any]:
        count = self.productions.get(operation.future, 0)
        self.productions[operation.future] = count + 1
        partials = self._pure(operation.body, [self.number], values)
        self.mailbox[self.number, operation.future, count] = partials
        return [count]

    def _reduce(self, operation: InterTileReduceOp, values: Values) -> Steps:
        future, count = operation.future, values[operation.future]
        assert isinstance(future.type, TileFutureType)
        produce = future.owner
        assert isinstance(produce, InterTileProduceOp)
        cores = np.arange(self.function.cores).reshape(-1, 1)
        groups = cores[contains(future.type.groups, cores)].reshape(-1)
        identities = [values[identity] for identity in operation.identities]
        for group in groups.tolist():
            consumers = cores[contains(operation.consumer_tiles_per_group.data, cores, [group])]
            if self.number not in consumers:
                continue
            members = cores[contains(produce.producer_tiles_per_group.data, cores, [group])]
            results = identities
            for member in members.reshape(-1).tolist():
                while (member, future, count) not in self.mailbox:
                    yield
                partials = self.mailbox[member, future, count]
                results = self._pure(operation.combiner, [*results, *partials], values)
            return results
        return identities

    # Everything else

    def _local(self, operation: Operation, values: Values) -> list[Any]:
        operands = [values[operand] for operand in operation.operands]
        match operation:
            case GetComputeTileIdOp():
                x, y, _ = self.function.grid
                coordinates = (self.number % x, self.number // x % y, self.number // (x * y))
                return list(coordinates[: len(operation.results)])
            case ConstructMemoryViewOp():
                return [_view(operation, values)]
            case ConstructAccessTileOp():
                return [direct_tile(operation, values)]
            case ConstructIndirectAccessTileOp():
                return [indirect_tile(operation, values, self.memory)]
            case LoadOp():
                tile: Tile = operands[0]
                return [tile.load(self.memory).reshape(shape_of(operation.result.type))]
            case StoreOp():
                values[operation.tile].store(self.memory, np.asarray(operands[0]))
                return []
            case linalg.GenericOp():
                return self._generic(operation, values)
            case SortOp():
                return tensors.sort(operation, operands)
        return [self._tensor(operation, operands)]

    def _generic(self, operation: linalg.GenericOp, values: Values) -> list[Any]:
        inputs = [values[operand] for operand in operation.inputs]
        outputs = [values[operand] for operand in operation.outputs]
        num_arguments = len(inputs) + len(outputs)

        def run(region: Region, arguments: Sequence[Any]) -> list[Any]:
            indices: Values = {
                index.results[0]: arguments[num_arguments + index.dim.value.data]
                for index in region.block.ops
                if isinstance(index, linalg.IndexOp)
            }
            body: Values = {**values, **indices}
            body.update(zip(region.block.args, arguments, strict=False))
            for inner in region.block.ops:
                if isinstance(inner, linalg.YieldOp):
                    return [body[value] for value in inner.operands]
                if not isinstance(inner, linalg.IndexOp):
                    (body[inner.results[0]],) = self._local(inner, body)
            raise KtirError("a linalg.generic without a yield")

        return tensors.generic(operation, inputs, outputs, run)

    def _tensor(self, operation: Operation, operands: list[Any]) -> Any:
        match operation:
            case tensor.SplatOp():
                return np.broadcast_to(operands[0], shape_of(operation.results[0].type))
            case tensor.EmptyOp():
                result = operation.results[0].type
                dtype = np.float64 if is_float(element_name(result)) else np.int64
                return np.zeros(shape_of(result), dtype)
            case tensor.ExtractOp():
                return operands[0][tuple(int(index) for index in operands[1:])]
            case tensor.ExtractSliceOp() | tensor.InsertSliceOp():
                return _slice(operation, operands)
            case linalg.BroadcastOp():
                axes = tuple(operation.dimensions.get_values())
                shape = shape_of(operation.results[0].type)
                return np.broadcast_to(np.expand_dims(operands[0], axes), shape)
            case linalg.TransposeOp():
                return np.transpose(operands[0], operation.permutation.get_values())
            case linalg.ReduceOp():
                return tensors.reduce(operation, operands, operation.dimensions.get_values())
            case GatherOp() | ScatterOp():
                return tensors.indexed(operation, operands)
            case ktir_linalg.MatmulOp() | ktir_linalg.BatchMatmulOp():
                return tensors.matmul(operation, operands)
        if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            return np.asarray(operands[0]).reshape(shape_of(operation.results[0].type))
        if operation.name == "arith.constant":
            return tensors.constant(operation.properties["value"], operation.results[0].type)
        typed = operation.operands[1 if operation.name == "arith.select" else 0]
        source, target = element_name(typed.type), element_name(operation.results[0].type)
        return apply(operation, [np.asarray(operand) for operand in operands], source, target)


def _view(operation: ConstructMemoryViewOp, values: Values) -> View:
    if operation.sizes or operation.strides:
        raise KtirError("the interpreter has no views of dynamic size")
    return View(
        int(values[operation.offset]),
        tuple(operation.static_sizes.get_values()),
        tuple(operation.static_strides.get_values()),
        View.element_of(operation.result.type),
    )


def _slice(operation: tensor.ExtractSliceOp | tensor.InsertSliceOp, operands: list[Any]) -> Any:
    if operation.offsets or operation.sizes or operation.strides:
        raise KtirError("the interpreter has no slices at dynamic offsets")
    index = tensors.slice_of(
        operation.static_offsets.get_values(),
        operation.static_sizes.get_values(),
        operation.static_strides.get_values(),
    )
    if isinstance(operation, tensor.ExtractSliceOp):
        return operands[0][index]
    result = np.array(operands[1])
    result[index] = np.asarray(operands[0]).reshape(result[index].shape)
    return result
