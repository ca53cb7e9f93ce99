"""`custom_op`: a KTIR kernel as an op of `torch.library`.

The op is functional: its inputs are the arrays that the kernel reads, its results the arrays that
it writes, which each call allocates.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.library import CustomOpDef
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType
from xdsl.ir import Attribute

from torch_spyre.backend.argument_analysis import array_arguments, is_written
from torch_spyre.backend.device_arrays import check_device_tensor, empty_row_major
from torch_spyre.backend.kernels import function_named, run_kernel
from torch_spyre.backend.program.instructions import Argument
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import CustomOpError, KernelArgumentError
from torch_spyre.ktir.dialects.ktdp.types import RuntimeArgType
from torch_spyre.ktir.module import Function, Module, load
from torch_spyre.ops.hand_written import HAND_WRITTEN_OPS

# How an output is made: like an input, or by a function of the inputs that returns an empty tensor
# or its shape and dtype.
Made = torch.Tensor | tuple[Sequence[int], torch.dtype]
Output = str | Callable[..., Made]


def custom_op(
    name: str,
    kernel: str | os.PathLike[str] | Module,
    *,
    function: str | None = None,
    outputs: Mapping[str, Output],
) -> CustomOpDef:
    """Define an op of `torch.library` that runs a KTIR kernel; see `docs/custom-kernels.md`."""
    op = _KernelOp.create(name, kernel, function, outputs)
    definition: CustomOpDef = torch.library.custom_op(
        name, op.run, mutates_args=(), schema=op.schema
    )
    definition.register_fake(op.fake)
    HAND_WRITTEN_OPS.add(definition._opoverload)
    return definition


@dataclass(frozen=True)
class _KernelOp:
    """A kernel as a function of tensors; `inputs`, `scalars` and `outputs` are argument names."""

    name: str
    module: Module
    function: Function
    inputs: tuple[str, ...]
    scalars: Mapping[str, str]
    outputs: Mapping[str, Output]
    arguments: Mapping[str, Argument]

    @classmethod
    def create(
        cls,
        name: str,
        kernel: str | os.PathLike[str] | Module,
        function: str | None,
        outputs: Mapping[str, Output],
    ) -> "_KernelOp":
        _check_name(name)
        module = kernel if isinstance(kernel, Module) else load(kernel)
        if function is None:
            if len(module.functions) != 1:
                known = ", ".join(module.functions) or "none"
                raise CustomOpError(name, f"choose a function of the module; it has: {known}")
            function = next(iter(module.functions))
        declared = function_named(module, function)
        names = [argument.name for argument in declared.arguments]
        values = dict(zip(names, declared.operation.args, strict=True))
        arrays = array_arguments(declared.operation, names)
        scalars = {
            key: _schema_type(name, key, value.type)
            for key, value in values.items()
            if key not in arrays
        }
        written = {key for key in arrays if is_written(values[key])}
        _check_outputs(name, function, list(arrays), written, outputs)
        inputs = tuple(key for key in arrays if key not in outputs)
        if not inputs:
            raise CustomOpError(name, f"{function} has no array to read: an op needs one input")
        ordered = {key: outputs[key] for key in arrays if key in outputs}
        return cls(name, module, declared, inputs, scalars, ordered, arrays)

    @property
    def schema(self) -> str:
        parameters = [f"Tensor {name}" for name in self.inputs]
        if self.scalars:
            parameters += ["*", *(f"{type} {name}" for name, type in self.scalars.items())]
        results = ", ".join(["Tensor"] * len(self.outputs))
        return f"({', '.join(parameters)}) -> " + (
            results if len(self.outputs) == 1 else f"({results})"
        )

    def run(self, *tensors: torch.Tensor, **scalars: Any) -> Any:
        """Run the kernel on tensors on a card; return new tensors."""
        inputs = self._checked(tensors)
        results = {key: self._make(key, inputs, scalars, is_fake=False) for key in self.outputs}
        with torch.no_grad():
            run_kernel(self.module, self.function.name, {**inputs, **results, **scalars})
        return self._as_result(results)

    def fake(self, *tensors: torch.Tensor, **scalars: Any) -> Any:
        """Return results without elements, as tracing needs them."""
        inputs = self._checked(tensors)
        return self._as_result(
            {key: self._make(key, inputs, scalars, is_fake=True) for key in self.outputs}
        )

    def _as_result(self, results: Mapping[str, torch.Tensor]) -> Any:
        values = tuple(results.values())
        return values[0] if len(values) == 1 else values

    def _checked(self, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs by name; raise if the kernel cannot access one."""
        inputs = dict(zip(self.inputs, tensors, strict=True))
        for name, tensor in inputs.items():
            if tensor.device.type != DEVICE_NAME:
                raise KernelArgumentError(
                    self.name,
                    f"{name} is on {tensor.device}; the kernel runs on tensors on {DEVICE_NAME}",
                )
            check_device_tensor(self.name, self.arguments[name], tensor)
        devices = {tensor.device for tensor in inputs.values()}
        if len(devices) > 1:
            places = ", ".join(f"{name} on {tensor.device}" for name, tensor in inputs.items())
            raise KernelArgumentError(self.name, f"the tensors are on several cards: {places}")
        return inputs

    def _make(
        self,
        name: str,
        inputs: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        *,
        is_fake: bool,
    ) -> torch.Tensor:
        """Return a new tensor for an output, in a layout that the kernel writes directly."""
        made = self.outputs[name]
        first = next(iter(inputs.values()))
        if isinstance(made, str):
            template = inputs[made]
            shape, dtype = template.shape, template.dtype
            if not template.is_contiguous():
                return self._checked_output(name, torch.empty_like(template), first)
        else:
            value = made(*inputs.values(), **_accepted(made, scalars))
            if isinstance(value, torch.Tensor):
                return self._checked_output(name, value, first)
            shape, dtype = torch.Size(value[0]), value[1]
        result = None
        argument = self.arguments[name]
        if not is_fake and (not argument.has_shape or argument.shape == tuple(shape)):
            result = empty_row_major(shape, dtype, first.device)
        if result is None:
            result = torch.empty(shape, dtype=dtype, device=first.device)
        return self._checked_output(name, result, first)

    def _checked_output(self, name: str, tensor: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        if tensor.device != first.device:
            raise KernelArgumentError(
                self.name,
                f"the function for {name} returns a tensor on {tensor.device}, and the inputs are "
                f"on {first.device}",
            )
        check_device_tensor(self.name, self.arguments[name], tensor)
        return tensor


def _accepted(function: Callable[..., Made], scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalars that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    if any(value.kind is inspect.Parameter.VAR_KEYWORD for value in parameters.values()):
        return dict(scalars)
    return {key: value for key, value in scalars.items() if key in parameters}


def _check_name(name: str) -> None:
    namespace, separator, op = name.partition("::")
    if not separator or not namespace.isidentifier() or not op.isidentifier():
        raise CustomOpError(name, "the name of an op is 'library::name'")
    if hasattr(getattr(torch.ops, namespace), op):
        raise CustomOpError(name, "an op of this name exists already; choose another name")


def _check_outputs(
    name: str,
    function: str,
    arrays: Sequence[str],
    written: set[str],
    outputs: Mapping[str, Output],
) -> None:
    """Raise unless the outputs are the arrays that the kernel writes, each made from inputs."""
    if not outputs:
        raise CustomOpError(name, f"no outputs; {function} writes: {', '.join(sorted(written))}")
    unknown = sorted(set(outputs) - set(arrays))
    if unknown:
        raise CustomOpError(
            name,
            f"outputs {', '.join(unknown)} are not arrays of {function}, which has: "
            f"{', '.join(arrays)}",
        )
    unwritten = sorted(set(outputs) - written)
    if unwritten:
        raise CustomOpError(name, f"{function} does not write the outputs {', '.join(unwritten)}")
    missing = sorted(written - set(outputs))
    if missing:
        raise CustomOpError(
            name,
            f"{function} writes {', '.join(missing)}, which are not outputs; an op may not change "
            "its inputs, so name them in outputs",
        )
    for key, made in outputs.items():
        if isinstance(made, str) and (made not in arrays or made in outputs):
            inputs = ", ".join(array for array in arrays if array not in outputs)
            raise CustomOpError(
                name, f"output {key} is to look like {made}, which is no input; inputs: {inputs}"
            )
        if not isinstance(made, str) and not callable(made):
            raise CustomOpError(
                name, f"output {key} is neither the name of an input nor a function of the inputs"
            )


def _schema_type(name: str, argument: str, type: Attribute) -> str:
    if isinstance(type, RuntimeArgType):
        type = type.underlying_type
    if isinstance(type, IntegerType) and type.width.data == 1:
        return "bool"
    if isinstance(type, IndexType | IntegerType):
        return "SymInt"
    if isinstance(type, AnyFloat):
        return "float"
    raise CustomOpError(name, f"the argument {argument} has type {type}, which no op can take")
