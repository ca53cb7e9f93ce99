"""The error for a kernel that diverges: which op, which element, and where it comes from."""

from collections.abc import Sequence
from pathlib import Path

import torch

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import find_record
from torch_spyre._inductor.verification.comparison import Divergence
from torch_spyre._inductor.verification.isolation import LocatedOp, locate
from torch_spyre._inductor.verification.pass_checks import GuiltyPass
from torch_spyre.errors import VerificationError
from torch_spyre.user_frames import current_line

Stages = Sequence[Sequence[OpSpec]]


def error_of(
    name: str,
    stages: Stages,
    computes: Sequence[str],
    tensors: Sequence[torch.Tensor],
    before: Sequence[torch.Tensor],
    index: int,
    divergence: Divergence,
    folder: Path | None,
) -> VerificationError:
    """Locate the op that makes an argument diverge, and return the error.

    `folder` is that of the kernel's dump, if there is one.
    """
    located = locate(name, stages, tensors, before)
    problem = _describe_output(stages, tensors[index], index, divergence)
    return VerificationError(
        name,
        f"{_describe_op(located, stages)}; {problem}",
        op=located.spec.op if located is not None else None,
        computes=", ".join(computes),
        origin=_origin(located),
        line=str(current_line()),
        folder=folder,
    )


def error_of_pass(
    name: str, computes: Sequence[str], guilty: GuiltyPass, folder: Path | None
) -> VerificationError:
    """Return the error for a pass that changes a result."""
    worst = guilty.divergence
    return VerificationError(
        name,
        f"the pass {guilty.name!r} changes the result: {guilty.argument} is {worst.actual:.9g} at "
        f"host offset {worst.position}, and {_describe_bounds(worst)} before that pass "
        f"({worst.count} of {worst.total} elements)",
        compiler_pass=guilty.name,
        computes=", ".join(computes),
        line=str(current_line()),
        folder=folder,
    )


def _describe_op(located: LocatedOp | None, stages: Stages) -> str:
    if located is None:
        ops = ", ".join(dict.fromkeys(spec.op for specs in stages for spec in specs))
        return (
            f"its result is wrong, although each of its ops ({ops}) is right when it runs alone, "
            "and the kernel up to each of them; the way they are combined is suspect"
        )
    spec, worst = located.spec, located.divergence
    kind = "" if located.is_alone else ", in the fused kernel but not alone"
    bounds = _describe_bounds(worst)
    return (
        f"the op {spec.op}{_instructions(spec)} is wrong{kind}: at {located.point} it gives "
        f"{worst.actual:.9g}, and {bounds} is right ({worst.count} of {worst.total} elements; "
        f"program {located.stage}, op {located.position})"
    )


def _instructions(spec: OpSpec) -> str:
    record = find_record(spec.op)
    if record is None:
        return ""
    names = dict.fromkeys(name for form in record.ktir.values() for name in form.instructions)
    return f" (instruction {', '.join(names)})" if len(names) == 1 else ""


def _describe_bounds(divergence: Divergence) -> str:
    if divergence.low == divergence.high or divergence.low != divergence.low:
        return f"{divergence.low:.9g}"
    return f"{divergence.low:.9g} to {divergence.high:.9g}"


def _describe_output(
    stages: Stages, tensor: torch.Tensor, index: int, divergence: Divergence
) -> str:
    specs = [spec for group in stages for spec in group]
    arg = next((spec.output for spec in reversed(specs) if spec.output.arg_index == index), None)
    if arg is None:
        return f"argument {index}, which no op writes, has changed in {divergence.count} bytes"
    name = f"argument {index} ({arg.name})" if arg.name else f"argument {index}"
    place = _host_index(arg, tensor, divergence.position)
    if divergence.is_outside:
        return (
            f"{name} has changed at {place}, which no op writes, from {divergence.low:.9g} to "
            f"{divergence.actual:.9g} ({divergence.count} elements)"
        )
    return (
        f"{name} is {divergence.actual:.9g} at {place}, outside of {_describe_bounds(divergence)} "
        f"(largest error {divergence.error:.3g}, {divergence.count} of {divergence.total} elements)"
    )


def _host_index(arg: TensorArg, tensor: torch.Tensor, position: int) -> str:
    """Return the index in the tensor of an element of device memory."""
    offset, remaining = 0, position
    if arg.stride_map is not None:
        sizes_and_strides = zip(reversed(arg.device_size), reversed(arg.stride_map), strict=True)
        for size, stride in sizes_and_strides:
            offset += remaining % size * max(stride, 0)
            remaining //= size
        offset -= int(tensor.storage_offset())
        strides = tensor.stride()
        dims = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
        index = [0] * tensor.dim()
        for dim in dims:
            stride = strides[dim]
            if stride > 0 and tensor.shape[dim] > 1:
                index[dim] = min(offset // stride, tensor.shape[dim] - 1)
                offset -= index[dim] * stride
        if offset == 0:
            return str(index)
    return f"element {position} of its device memory"


def _origin(located: LocatedOp | None) -> str:
    # OpSpecs may know the place in the user's program that they come from.
    origin = None if located is None else getattr(located.spec, "origin", None)
    return "" if origin is None else str(origin)
