"""What a function's arguments are: arrays in device memory, or scalars."""

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre.backend.lowering.constants import argument_bits
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.values import element_type_of
from torch_spyre.backend.program.instructions import Argument, ElementType
from torch_spyre.ktir.dialects.ktdp.attributes import MemorySpaceAttr, Visibility
from torch_spyre.ktir.dialects.ktdp.types import RuntimeArgType
from torch_spyre.ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryViewOp,
    ConstructMemoryViewOp,
)

Scalar = int | float | bool
_ADDRESS_OPS = ("arith.addi", "arith.subi", "arith.index_cast", "arith.index_castui")
_LOOP_BOUNDS = 3  # operands of scf.for before those that it carries


def bind_arguments(
    kernel: KernelContext,
    function: FuncOp,
    names: list[str],
    known: Mapping[str, Scalar],
    arrays: frozenset[str] | None,
) -> tuple[Argument, ...]:
    """Gives every argument its register; known scalars become constants and vanish.

    `arrays` are the arguments that are arrays; None: those that a global view starts from.
    """
    arguments = []
    for name, value in zip(names, function.args, strict=True):
        views = _views_on(value, arrays is not None and name in arrays)
        is_array = name in arrays if arrays is not None else bool(views)
        if is_array and not views and not isinstance(value.type, IndexType):
            raise kernel.error(f"{name} is a scalar of type {value.type}, not an array")
        if arrays is not None and not is_array and _begins_view(value):
            raise kernel.error(f"{name} is where a view of memory begins: it must be an array")
        if is_array and name in known:
            raise kernel.error(f"{name} is an array: its content is given when the kernel runs")
        if is_array:
            arguments.append(_array(kernel, name, value, views))
        elif name in known:
            type = _scalar_type(kernel, value.type)
            bits = argument_bits(function.sym_name.data, name, type, known[name])
            kernel.scalars[value] = kernel.literal(bits, type)
        else:
            type = _scalar_type(kernel, value.type)
            register = kernel.registers.new()
            if isinstance(value.type, RuntimeArgType) and value.type.upperbound is not None:
                kernel.registers.limit(register, (0, value.type.upperbound))
            kernel.scalars[value] = _rounded(kernel, register, type)
            arguments.append(Argument(name, False, register, type))
    return tuple(arguments)


def _rounded(kernel: KernelContext, register: int, type: ElementType) -> int:
    """Callers give floats as float32; the card rounds them to the type declared."""
    if not type.is_float or type is ElementType.F32:
        return register
    with kernel.region(kernel.prologue):
        return kernel.compute("convertf", ElementType.F32, type, [register])


def _scalar_type(kernel: KernelContext, found: Attribute) -> ElementType:
    if isinstance(found, RuntimeArgType):
        found = found.underlying_type
    return kernel.element_type(found)


def _array(
    kernel: KernelContext, name: str, value: SSAValue, views: list[ConstructMemoryViewOp]
) -> Argument:
    register = kernel.registers.new((0, 1 << 50))
    kernel.scalars[value] = register
    types = [element_type_of(view.result.type.element_type) for view in views]
    type = next((found for found in types if found is not None), ElementType.F16)
    shape = _checked_shape(value, views)
    if shape is None:
        return Argument(name, True, register, type)
    return Argument(name, True, register, type, True, shape)


def _views_on(value: SSAValue, is_address: bool) -> list[ConstructMemoryViewOp]:
    """The views of device memory whose address is the argument, or it plus something."""
    found: list[ConstructMemoryViewOp] = []
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            operation = use.operation
            if isinstance(operation, ConstructMemoryViewOp):
                if use.index == 0 and _is_global(operation):
                    found.append(operation)
                continue
            for address in _addresses_from(operation, use.index, is_address):
                if address not in seen:
                    seen.add(address)
                    pending.append(address)
    return found


def _addresses_from(operation: Operation, position: int, is_address: bool) -> list[SSAValue]:
    """What is an address when this operand is one.

    Of a sum, either can be the address; where nobody has said that it is, the first.
    """
    if operation.name in _ADDRESS_OPS:
        return list(operation.results) if is_address or position == 0 else []
    if isinstance(operation, scf.ForOp) and position >= _LOOP_BOUNDS:
        carried = position - _LOOP_BOUNDS
        return [operation.body.block.args[1 + carried], operation.res[carried]]
    return []


def _begins_view(value: SSAValue) -> bool:
    return any(
        isinstance(use.operation, ConstructMemoryViewOp)
        and use.index == 0
        and _is_global(use.operation)
        for use in value.uses
    )


def _is_global(view: ConstructMemoryViewOp) -> bool:
    space = view.memory_space
    if not isinstance(space, MemorySpaceAttr):
        canonical = space.canonical()
        if not isinstance(canonical, MemorySpaceAttr):
            return False
        space = canonical
    return space.visibility is Visibility.GLOBAL


def _checked_shape(value: SSAValue, views: list[ConstructMemoryViewOp]) -> tuple[int, ...] | None:
    """The shape an array must have: where one plain, gapless view covers it."""
    shapes = set()
    for view in views:
        sizes = tuple(view.static_sizes.get_values())
        strides = tuple(view.static_strides.get_values())
        is_part = any(
            isinstance(use.operation, ConstructDistributedMemoryViewOp) for use in view.result.uses
        )
        if view.offset is not value or DYNAMIC_INDEX in (*sizes, *strides) or is_part:
            return None
        expected, stride = [], 1
        for size in reversed(sizes):
            expected.append(stride)
            stride *= size
        if strides != tuple(reversed(expected)):
            return None
        shapes.add(sizes)
    return shapes.pop() if len(shapes) == 1 else None
