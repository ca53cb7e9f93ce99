"""The parameters of a kernel: the tensors in device memory that its OpSpecs access.

The emitter declares them in this order, and the runtime binds memory to them in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre.constants import BYTES_IN_STICK


@dataclass(frozen=True)
class KernelParameter:
    """A tensor in device memory: one parameter of the kernel's function."""

    name: str
    num_bytes: int
    # Position among the arguments of the bundle; None for a buffer that only the bundle uses.
    argument_index: int | None = None


def parameter_name(arg: TensorArg) -> str:
    """Return the name of the parameter that holds the address of the tensor."""
    return f"arg{arg.arg_index}" if arg.arg_index >= 0 else f"pool_{arg.name}"


def kernel_parameters(specs: Sequence[OpSpec]) -> list[KernelParameter]:
    """Return the parameters of a kernel: arguments in ascending order, then buffers of the pool."""
    parameters: dict[str, KernelParameter] = {}
    for arg in (arg for spec in specs for arg in spec.args if not arg.in_scratchpad):
        name = parameter_name(arg)
        index = arg.arg_index if arg.arg_index >= 0 else None
        parameters[name] = KernelParameter(name, _device_bytes(arg), index)
    arguments = {
        parameter.argument_index: parameter
        for parameter in parameters.values()
        if parameter.argument_index is not None
    }
    buffers = [parameter for parameter in parameters.values() if parameter.argument_index is None]
    return [*(arguments[index] for index in sorted(arguments)), *buffers]


def num_arguments(stages: Sequence[Sequence[OpSpec]]) -> int:
    """Return how many arguments a bundle of these kernels has."""
    indices = (arg.arg_index for specs in stages for spec in specs for arg in spec.args)
    return 1 + max(indices, default=-1)


def _device_bytes(arg: TensorArg) -> int:
    return prod(arg.device_size[:-1]) * BYTES_IN_STICK
