"""`scf.for`, `scf.if` and their yields."""

from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import For, If
from torch_spyre.backend.lowering.values import TensorView
from torch_spyre.backend.lowering.walk import lower_block


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
    loop = For(kernel.place, register, lower, upper, step)
    place = kernel.place
    for argument, init, result in zip(arguments, operation.iter_args, operation.res, strict=True):
        if isinstance(argument.type, TensorType):
            tensor = kernel.tensor(init)
            carried = kernel.new(tensor.type, tensor.extents, result)
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
        kernel.place = place
        _carry(kernel, _yielded(block), list(operation.res))
    kernel.place = place


def _yielded(block: Block) -> list[SSAValue]:
    terminator = block.last_op
    assert terminator is not None, "regions end in a terminator"
    return list(terminator.operands)


def _carry(kernel: KernelContext, values: list[SSAValue], targets: list[SSAValue]) -> None:
    """Gives the targets the yielded values, as if all at once."""
    carried = {
        kernel.tensors[target].buffer  # type: ignore[union-attr]
        for target in targets
        if isinstance(target.type, TensorType)
    }
    registers = {kernel.scalars[target] for target in targets if target in kernel.scalars}
    moves: list[tuple[SSAValue, int | TensorView | object]] = []
    for value, target in zip(values, targets, strict=True):
        if isinstance(target.type, TensorType):
            source, destination = kernel.tensor(value), kernel.tensors[target]
            if source == destination:
                continue
            if isinstance(source, TensorView) and source.buffer in carried:
                # What another target holds now must outlive its being overwritten.
                packed = kernel.new(source.type, source.extents, value)
                kernel.write(source, packed)
                source = packed
            moves.append((target, source))
        else:
            register = kernel.scalar(value)
            if register in registers and register != kernel.scalars[target]:
                saved = kernel.registers.new()
                kernel.move(saved, register)
                register = saved
            moves.append((target, register))
    for target, found in moves:
        if isinstance(found, int):
            kernel.move(kernel.scalars[target], found)
        else:
            destination = kernel.tensors[target]
            assert isinstance(destination, TensorView)
            kernel.write(found, destination)  # type: ignore[arg-type]


def lower_if(kernel: KernelContext, operation: scf.IfOp) -> None:
    branch = If(kernel.place, kernel.scalar(operation.cond))
    place = kernel.place
    regions = [(operation.true_region, branch.then), (operation.false_region, branch.otherwise)]
    for region, nodes in regions:
        if not region.blocks:
            continue
        with kernel.region(nodes):
            lower_block(kernel, region.block)
            kernel.place = place
            for value, result in zip(_yielded(region.block), operation.output, strict=True):
                _give(kernel, branch, value, result)
    kernel.place = place
    kernel.add(branch)


def _give(kernel: KernelContext, branch: If, value: SSAValue, result: SSAValue) -> None:
    """Both branches write the same buffer or register."""
    if not isinstance(result.type, TensorType):
        kernel.scalars.setdefault(result, kernel.registers.new())
        kernel.move(kernel.scalars[result], kernel.scalar(value))
        return
    tensor = kernel.tensor(value)
    if result not in kernel.tensors:
        joined = kernel.new(tensor.type, tensor.extents, result)
        branch.results.append(joined.buffer)
        kernel.tensors[result] = joined
    destination = kernel.tensors[result]
    assert isinstance(destination, TensorView)
    if destination.extents != tensor.extents:
        raise kernel.error("the branches yield tensors of different sizes")
    kernel.write(tensor, replace(destination))
