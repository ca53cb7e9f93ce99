"""Lowers `scf.for`, `scf.if` and their yields."""

from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.dispatch import lower_block
from torch_spyre.backend.lowering.nodes import For, If
from torch_spyre.backend.lowering.values import Tensor, TensorView


def lower_for(kernel: KernelContext, operation: scf.ForOp) -> None:
    lower, upper, step = (
        kernel.scalar(value) for value in (operation.lb, operation.ub, operation.step)
    )
    low, high = kernel.registers.bounds(lower), kernel.registers.bounds(upper)
    bounds = (low[0], max(low[0], high[1] - 1)) if low and high else None
    block = operation.body.block
    variable, *arguments = block.args
    register = kernel.registers.new(bounds)
    kernel.scalars[variable] = register
    loop = For(kernel.location, register, lower, upper, step)
    location = kernel.location
    for argument, init, result in zip(arguments, operation.iter_args, operation.res, strict=True):
        if isinstance(argument.type, TensorType):
            tensor = kernel.tensor(init)
            carried = kernel.allocate(tensor.type, tensor.extents, result)
            kernel.write(tensor, carried)
            loop.carried.append(carried.buffer)
            kernel.tensors[argument] = kernel.tensors[result] = carried
        else:
            scalar = kernel.registers.new()
            kernel.move(scalar, kernel.scalar(init))
            kernel.scalars[argument] = kernel.scalars[result] = scalar
    kernel.add(loop)
    with kernel.region(loop.body):
        lower_block(kernel, block)
        kernel.location = location
        _write_carried(kernel, _yielded(block), list(operation.res))
    kernel.location = location


def _yielded(block: Block) -> list[SSAValue]:
    terminator = block.last_op
    assert terminator is not None, "regions end in a terminator"
    return list(terminator.operands)


def _write_carried(kernel: KernelContext, values: list[SSAValue], targets: list[SSAValue]) -> None:
    """Write the yielded values to the targets as if simultaneously."""
    pairs = list(zip(values, targets, strict=True))
    _write_carried_tensors(kernel, [pair for pair in pairs if isinstance(pair[1].type, TensorType)])
    _write_carried_scalars(
        kernel, [pair for pair in pairs if not isinstance(pair[1].type, TensorType)]
    )


def _write_carried_tensors(kernel: KernelContext, pairs: list[tuple[SSAValue, SSAValue]]) -> None:
    destinations = []
    for _, target in pairs:
        destination = kernel.tensors[target]
        assert isinstance(destination, TensorView), "carried tensors are in buffers"
        destinations.append(destination)
    carried = {destination.buffer for destination in destinations}
    writes: list[tuple[Tensor, TensorView]] = []
    for (value, _), destination in zip(pairs, destinations, strict=True):
        source = kernel.tensor(value)
        if source == destination:
            continue
        if source.extents != destination.extents:
            raise kernel.error(
                "an iteration yields a tensor of another size than its iter_args argument; both "
                "must have the same sizes"
            )
        if isinstance(source, TensorView) and source.buffer in carried:
            # The source is itself a target: save its value before it is overwritten.
            packed = kernel.allocate(source.type, source.extents, value)
            kernel.write(source, packed)
            source = packed
        writes.append((source, destination))
    for source, destination in writes:
        kernel.write(source, destination)


def _write_carried_scalars(kernel: KernelContext, pairs: list[tuple[SSAValue, SSAValue]]) -> None:
    carried = {kernel.scalars[target] for _, target in pairs}
    moves = []
    for value, target in pairs:
        source, destination = kernel.scalar(value), kernel.scalars[target]
        if source in carried and source != destination:
            saved = kernel.registers.new()
            kernel.move(saved, source)
            source = saved
        moves.append((destination, source))
    for destination, source in moves:
        kernel.move(destination, source)


def lower_if(kernel: KernelContext, operation: scf.IfOp) -> None:
    condition = kernel.scalar(operation.cond)
    known = kernel.registers.constant_value(condition)
    if known is not None:
        _inline_region(
            kernel, operation, operation.true_region if known else operation.false_region
        )
        return
    branch = If(kernel.location, condition)
    location = kernel.location
    regions = [(operation.true_region, branch.then), (operation.false_region, branch.otherwise)]
    for region, nodes in regions:
        if not region.blocks:
            continue
        with kernel.region(nodes):
            lower_block(kernel, region.block)
            kernel.location = location
            for value, result in zip(_yielded(region.block), operation.output, strict=True):
                _write_result(kernel, branch, value, result)
    kernel.location = location
    kernel.add(branch)


def _inline_region(kernel: KernelContext, operation: scf.IfOp, region: Region) -> None:
    """Lower the branch that every core takes into the current region."""
    if not region.blocks:
        return
    lower_block(kernel, region.block)
    for value, result in zip(_yielded(region.block), operation.output, strict=True):
        if isinstance(result.type, TensorType):
            kernel.tensors[result] = kernel.tensor(value)
        else:
            kernel.scalars[result] = kernel.scalar(value)


def _write_result(kernel: KernelContext, branch: If, value: SSAValue, result: SSAValue) -> None:
    """Write a yielded value to the buffer or register of the result, which both branches use."""
    if not isinstance(result.type, TensorType):
        source = kernel.scalar(value)
        bounds = kernel.registers.bounds(source)
        if result not in kernel.scalars:
            kernel.scalars[result] = kernel.registers.new(bounds)
        else:
            kernel.registers.widen(kernel.scalars[result], bounds)
        kernel.move(kernel.scalars[result], source)
        return
    tensor = kernel.tensor(value)
    if result not in kernel.tensors:
        merged = kernel.allocate(tensor.type, tensor.extents, result)
        branch.results.append(merged.buffer)
        kernel.tensors[result] = merged
    destination = kernel.tensors[result]
    assert isinstance(destination, TensorView)
    if destination.extents != tensor.extents:
        raise kernel.error("the branches of scf.if must yield tensors of the same sizes")
    kernel.write(tensor, replace(destination))
