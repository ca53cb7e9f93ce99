"""Classifies a function's arguments as arrays in device memory or scalars, and binds registers."""

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre.backend.lowering.constants import argument_bits
from torch_spyre.backend.lowering.context import MAX_ADDRESS, KernelContext
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
_LOOP_BOUNDS = 3  # operands of scf.for before the initial values of its carried ones


def bind_arguments(
    kernel: KernelContext,
    function: FuncOp,
    names: list[str],
    known: Mapping[str, Scalar],
    arrays: frozenset[str] | None,
) -> tuple[Argument, ...]:
    """Bind a register to each argument; return the arguments that remain in the program.

    Scalars in `known` become constants and are not arguments of the program. `arrays` are the names
    of the arrays; None if these are the arguments that a global view starts at.
    """
    arguments = []
    for name, value in zip(names, function.args, strict=True):
        views = views_on(value, arrays is not None and name in arrays)
        is_array = name in arrays if arrays is not None else bool(views)
        if is_array and not views and not isinstance(value.type, IndexType):
            raise kernel.error(f"{name} is a scalar of type {value.type}, not an array")
        if arrays is not None and not is_array and _is_base_of_view(value):
            raise kernel.error(f"{name} is the base of a memory view: it must be an array")
        if is_array and name in known:
            raise kernel.error(f"{name} is an array: it is an argument of run(), not of compile()")
        if is_array:
            arguments.append(_array_argument(kernel, name, value, views))
        elif name in known:
            type = _scalar_type(kernel, value.type)
            bits = argument_bits(function.sym_name.data, name, type, known[name])
            kernel.scalars[value] = kernel.literal(bits, type)
        else:
            type = _scalar_type(kernel, value.type)
            register = kernel.registers.new()
            if isinstance(value.type, RuntimeArgType) and value.type.upperbound is not None:
                kernel.registers.set_bounds(register, (0, value.type.upperbound))
            kernel.scalars[value] = _rounded(kernel, register, type)
            arguments.append(Argument(name, False, register, type))
    return tuple(arguments)


def _rounded(kernel: KernelContext, register: int, type: ElementType) -> int:
    """Return a register with a float argument, passed as float32, rounded to its declared type."""
    if not type.is_float or type is ElementType.F32:
        return register
    with kernel.region(kernel.prologue):
        return kernel.compute("convertf", ElementType.F32, type, [register])


def _scalar_type(kernel: KernelContext, type: Attribute) -> ElementType:
    if isinstance(type, RuntimeArgType):
        type = type.underlying_type
    return kernel.element_type(type)


def _array_argument(
    kernel: KernelContext, name: str, value: SSAValue, views: list[ConstructMemoryViewOp]
) -> Argument:
    register = kernel.registers.new((0, MAX_ADDRESS))
    kernel.scalars[value] = register
    return array_argument(name, value, views, register)


def array_argument(
    name: str, value: SSAValue, views: list[ConstructMemoryViewOp], register: int = 0
) -> Argument:
    """Return the argument of a program for an array with these views."""
    types = [element_type_of(view.result.type.element_type) for view in views]
    type = next((entry for entry in types if entry is not None), ElementType.F16)
    shape = _checked_shape(value, views)
    if shape is None:
        return Argument(name, True, register, type)
    return Argument(name, True, register, type, True, shape)


def views_on(value: SSAValue, is_address: bool) -> list[ConstructMemoryViewOp]:
    """Return the views of device memory whose address is the argument or computed from it."""
    views: list[ConstructMemoryViewOp] = []
    pending, visited = [value], {value}
    while pending:
        for use in pending.pop().uses:
            operation = use.operation
            if isinstance(operation, ConstructMemoryViewOp):
                if use.index == 0 and _is_global(operation):
                    views.append(operation)
                continue
            for address in _derived_addresses(operation, use.index, is_address):
                if address not in visited:
                    visited.add(address)
                    pending.append(address)
    return views


def _derived_addresses(operation: Operation, position: int, is_address: bool) -> list[SSAValue]:
    """Return the values that are addresses if an operand of an op is one.

    Either operand of a sum can be the address; if the caller has not declared the argument an
    array (`is_address`), only the first.
    """
    if operation.name in _ADDRESS_OPS:
        return list(operation.results) if is_address or position == 0 else []
    if isinstance(operation, scf.ForOp) and position >= _LOOP_BOUNDS:
        carried = position - _LOOP_BOUNDS
        return [operation.body.block.args[1 + carried], operation.res[carried]]
    return []


def _is_base_of_view(value: SSAValue) -> bool:
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
    """Return the shape that an array must have; None unless its views are all of it, contiguous."""
    shapes = set()
    for view in views:
        sizes = tuple(view.static_sizes.get_values())
        strides = tuple(view.static_strides.get_values())
        is_partition = any(
            isinstance(use.operation, ConstructDistributedMemoryViewOp) for use in view.result.uses
        )
        if view.offset is not value or DYNAMIC_INDEX in (*sizes, *strides) or is_partition:
            return None
        expected, stride = [], 1
        for size in reversed(sizes):
            expected.append(stride)
            stride *= size
        if strides != tuple(reversed(expected)):
            return None
        shapes.add(sizes)
    return shapes.pop() if len(shapes) == 1 else None
