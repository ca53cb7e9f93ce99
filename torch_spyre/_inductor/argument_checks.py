"""Rejects calls that PyTorch does not accept, before they are decomposed.

Decompositions do not repeat PyTorch's argument checks, and would cast results to any dtype.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree

from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.errors import UnsupportedError

# Unlike comparisons, these write only to targets of bool or uint8.
_BOOL_RESULTS = ("all", "any")
# Exceptions of meta functions that are missing, depend on data, or have bugs: that of LSTM cells
# reads the bias even if there is none.
META_FAILURES = (
    UnsupportedOperatorException,
    NotImplementedError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    AttributeError,
)
# Ops whose meta functions reject dtypes that the kernels support, such as float16.
TOO_STRICT_META = ("aten::_grouped_mm",)
# Ops whose decompositions would accept any dtype, and truncate results to integers or bools.
_FLOAT_ONLY = (
    *("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "leaky_relu"),
    *("log_sigmoid_forward", "mish", "silu", "softplus", "softshrink"),
    *("_log_softmax", "_softmax", "glu", "logcumsumexp"),
    *("frac", "grid_sampler_2d", "grid_sampler_3d", "im2col", "max_unpool2d"),
    *("max_unpool3d", "multi_margin_loss", "nll_loss_forward", "nll_loss2d_forward"),
)
# Ops of two tensors that need a float.
_FLOAT_ONLY_PAIRS = ("hypot", "huber_loss", "logaddexp", "logaddexp2", "smooth_l1_loss")
# Ops that do not support bool.
_NOT_BOOL = (
    *("abs", "argmax", "argmin", "ceil", "dot", "floor", "relu", "trace", "vdot", "round"),
    *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "mm", "mv", "addcmul", "addcdiv", "trunc"),
    *("clamp", "kthvalue", "median", "nanmedian", "topk", "threshold", "avg_pool2d", "avg_pool3d"),
    *("bucketize", "searchsorted", "index_reduce"),
)
# Ops that do not support two bools.
_NOT_BOOLS = ("fmod", "pow", "remainder")
# Ops that do not return bool, whatever dtype= or out= ask for.
_NO_BOOL_RESULTS = ("arange", "cumprod", "cumsum", "linspace", "logspace", "range")
# Ops that cast their result to the dtype of out=. Other kernels of the CPU reject another dtype.
_CASTING = (
    *("acos", "acosh", "add", "addcdiv", "addcmul", "addr", "all", "angle", "any", "arange"),
    *("asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift", "bitwise_or"),
    *("bitwise_right_shift", "bitwise_xor", "cat", "clamp", "clamp_max", "clamp_min", "copysign"),
    *("cos", "cosh", "cumprod", "cumsum", "digamma", "div", "eq", "erf", "erfc", "erfinv", "exp"),
    *("exp2", "expm1", "eye", "floor_divide", "fmax", "fmin", "fmod", "ge", "gelu_backward"),
    *("glu", "gt", "huber_loss", "hypot", "i0", "le", "lerp", "lgamma", "linspace", "log"),
    *("log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not"),
    *("logical_or", "logical_xor", "logit", "logspace", "logsumexp", "lt", "max", "maximum"),
    *("mean", "min", "minimum", "mse_loss", "mul", "mvlgamma", "nansum", "ne", "polygamma"),
    *("pow", "prod", "reciprocal", "remainder", "rsqrt", "sigmoid", "sigmoid_backward", "sin"),
    *("silu_backward", "sinc", "sinh", "smooth_l1_loss", "special_entr", "special_erfcx"),
    *("special_i0e", "special_i1", "special_i1e", "special_log_ndtr", "special_ndtri"),
    *("special_xlog1py", "sqrt", "std", "sub", "sum", "tan", "tanh", "tanh_backward"),
    *("threshold", "threshold_backward", "var", "xlogy"),
)
# Overloads of them that do not.
_NOT_CASTING = (
    *("aten.clamp.out", "aten.clamp_max.out", "aten.clamp_min.out", "aten.lerp.Tensor_out"),
    *("aten.max.dim_max", "aten.min.dim_min"),
)
# Ops that add a multiple of one operand to the other.
_SCALED = ("add", "rsub", "sub")
# Reductions that return indices support no more dims than the bits of a mask of dims.
_MAX_REDUCED_DIMS = 64
_INDEX_REDUCTIONS = ("argmax", "argmin", "max", "min")
# Ops with one index along one dim, and ops with an index for each of the first dims.
_INDEXED_DIM = (
    *("gather", "index_add", "index_copy", "index_fill", "index_reduce", "index_select", "scatter"),
    *("scatter_add", "scatter_reduce"),
)
_INDEXED_DIMS = ("_index_put_impl", "index", "index_put")
# The dtypes of indices that the CPU accepts, where meta functions accept more.
_INDEX_DTYPES = {
    **dict.fromkeys(("index_add", "index_reduce", "index_select"), (torch.int64, torch.int32)),
    **dict.fromkeys(("index_copy", "index_fill", "put"), (torch.int64,)),
    **dict.fromkeys(_INDEXED_DIMS, (torch.int64, torch.int32, *MASK_DTYPES)),
}
_VECTOR_INDEX = ("index_reduce", "index_select")
# Ops whose source must have the dtype of the tensor.
_SAME_DTYPE = ("index_add", "index_copy")
# Ops that write a scalar to elements, which must fit 16-bit floats too, and ops whose scalars must
# fit the dtype that they are asked for.
_FILLS = ("constant_pad_nd", "full_like", "index_fill", "masked_fill", "scatter")
_FACTORIES = ("full_like", "linspace", "logspace")
# Types of scalars in schemas, and dtypes that any scalar can be converted to.
_SCALAR_TYPES = ("number", "Optional[number]")
_ANY_SCALAR_DTYPES = (torch.bool, torch.complex64, torch.complex128)


def check_arguments(
    overload: torch._ops.OpOverload,
    written: Sequence[torch.Tensor],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> list[torch.Tensor]:
    """Check a call with fake tensors; return its results, or an empty list if unknown.

    Raise RuntimeError if a result cannot be cast to the tensor that the op writes, and
    UnsupportedError for dtypes and scalars that the CPU kernel rejects with its own message.
    """
    _check_dtype(overload, args)
    _check_result_dtype(overload, written, kwargs)
    _check_scalars(overload, written, args, kwargs)
    _check_dim(overload, args, kwargs)
    _check_indices(overload, args, kwargs)
    _check_scale(overload, args, kwargs)
    _check_num_dims(overload, args)
    if not written:
        return _meta_results(overload, args, kwargs)
    functional = _functional_overload(overload)
    if functional is None:
        return []
    accepted = {argument.name for argument in functional._schema.arguments}
    named = {name: value for name, value in kwargs.items() if name in accepted}
    name = overload._schema.name.removeprefix("aten::")
    results = pytree.tree_leaves(functional(*args, **named))
    for result, target in zip(results, written, strict=False):
        if name in _BOOL_RESULTS and target.dtype not in MASK_DTYPES:
            raise RuntimeError(
                f"{name} only supports bool tensor for result, got: {_type_name(target)}"
            )
        if not torch.can_cast(result.dtype, target.dtype):
            raise RuntimeError(
                f"result type {_type_name(result)} can't be cast to the desired output type "
                f"{_type_name(target)}"
            )
        _check_output_dtype(overload, result.dtype, target.dtype, kwargs)
    return results


def _check_output_dtype(
    overload: torch._ops.OpOverload,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
    kwargs: dict[str, Any],
) -> None:
    """Raise UnsupportedError for an output of another dtype, unless the CPU kernel casts to it.

    In-place ops cast.
    """
    has_output = any(argument.is_out for argument in overload._schema.arguments)
    if dtype == output_dtype or not has_output:
        return
    name = overload._schema.name.removeprefix("aten::")
    is_casting = name in _CASTING and str(overload) not in _NOT_CASTING
    if not is_casting or kwargs.get("dtype") is not None:
        raise UnsupportedError(f"{overload} of {dtype} into {output_dtype}")


def _check_dtype(overload: torch._ops.OpOverload, args: Sequence[Any]) -> None:
    """Raise UnsupportedError for dtypes that the CPU kernel rejects with its own message."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    first = next((value for value in args if isinstance(value, torch.Tensor)), None)
    if first is None:
        return
    if name == "heaviside" and args[0].dtype != args[1].dtype:
        raise UnsupportedError(f"{overload} of {args[0].dtype} with {args[1].dtype}")
    if first.is_floating_point():
        return
    if name in _NOT_BOOLS and torch.result_type(*args[:2]) is torch.bool:
        raise UnsupportedError(f"{overload} of bools")
    if name in _FLOAT_ONLY_PAIRS and not torch.result_type(*args[:2]).is_floating_point:
        raise UnsupportedError(f"{overload} of integers")
    if name in _FLOAT_ONLY or (name in _NOT_BOOL and first.dtype is torch.bool):
        raise UnsupportedError(f"{overload} on {first.dtype}")


def _check_result_dtype(
    overload: torch._ops.OpOverload, written: Sequence[torch.Tensor], kwargs: dict[str, Any]
) -> None:
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    dtypes = [kwargs.get("dtype"), *(target.dtype for target in written)]
    if name in _NO_BOOL_RESULTS and torch.bool in dtypes:
        raise UnsupportedError(f"{overload} with a bool result")


def _check_scale(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Raise UnsupportedError for a factor `alpha`, or a bool operand, that the CPU rejects."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    if name not in _SCALED:
        return
    if name != "add" and any(isinstance(value, bool) for value in args[:2]):
        raise UnsupportedError(f"{overload} of a bool")
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    dtype = torch.result_type(args[0], args[1])
    is_wrong_bool = isinstance(alpha, bool) and dtype is not torch.bool
    is_wrong_float = isinstance(alpha, float) and not dtype.is_floating_point
    if is_wrong_bool or is_wrong_float:
        raise UnsupportedError(f"{overload} of {dtype} with alpha={alpha}")


def _check_num_dims(overload: torch._ops.OpOverload, args: Sequence[Any]) -> None:
    name = overload._schema.name.removeprefix("aten::")
    if name in _INDEX_REDUCTIONS and len(args) > 1 and args[0].dim() > _MAX_REDUCED_DIMS:
        raise UnsupportedError(f"{overload} of more than {_MAX_REDUCED_DIMS} dims")


def _check_scalars(
    overload: torch._ops.OpOverload,
    written: Sequence[torch.Tensor],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> None:
    """Raise UnsupportedError for scalars that overflow the dtype, which most CPU kernels reject.

    As in PyTorch, negative integers wrap around in unsigned dtypes.
    """
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    tensors = [value for value in (*written, *args) if isinstance(value, torch.Tensor)]
    requested = kwargs.get("dtype") if name in _FACTORIES else None
    dtype = requested or (tensors[0].dtype if tensors else None)
    if dtype is None or dtype in _ANY_SCALAR_DTYPES:
        return
    if dtype.is_floating_point and name not in _FILLS:
        return
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    min_integer = limits.min or -limits.max
    for value in _scalars(overload, args, kwargs):
        if dtype.is_floating_point and not math.isfinite(value):
            continue
        minimum = limits.min if isinstance(value, float) else min_integer
        if not minimum <= value <= limits.max:
            raise UnsupportedError(f"{overload} with {value} on {dtype}")


def _scalars(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[int | float]:
    """Yield the real values of the arguments whose type in the schema is a scalar."""
    for position, argument in enumerate(overload._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if str(argument.type) in _SCALAR_TYPES and isinstance(value, int | float):
            yield value


def _check_dim(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Raise UnsupportedError for a dim out of range, which the CPU kernel rejects."""
    dim = _argument(overload, "dim", args, kwargs)
    if type(dim) is not int or not isinstance(args[0], torch.Tensor):
        return
    num_dims = max(args[0].dim(), 1)
    if not -num_dims <= dim < num_dims:
        raise UnsupportedError(f"{overload} along dim {dim} of a tensor with {num_dims} dims")


def _check_indices(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Raise UnsupportedError for indices that the CPU kernel rejects for their dtype or shape."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    if name in _INDEXED_DIMS:
        indices = [index for index in args[1] if index is not None]
        has_mask = any(index.dtype in MASK_DTYPES for index in indices)
        if not has_mask and _indexes_empty_dim(args[0].shape, args[1]):
            raise UnsupportedError(f"{overload} with indices of a dim of size 0")
        if has_mask and not _masks_fit(args[0].shape, args[1]):
            raise UnsupportedError(f"{overload} with a mask of another shape")
        if len(args[1]) > args[0].dim():
            raise UnsupportedError(f"{overload} with {len(args[1])} indices")
    elif name in _INDEXED_DIM or name in _INDEX_DTYPES:
        indices = [_argument(overload, "index", args, kwargs)]
        dim = _argument(overload, "dim", args, kwargs)
        if dim is not None and args[0].dim() and _indexes_empty_dim([args[0].shape[dim]], indices):
            raise UnsupportedError(f"{overload} with indices of a dim of size 0")
    else:
        return
    for index in indices:
        if index.dtype not in _INDEX_DTYPES.get(name, (index.dtype,)):
            raise UnsupportedError(f"{overload} with indices of {index.dtype}")
    if name in _VECTOR_INDEX and indices[0].dim() > 1:
        raise UnsupportedError(f"{overload} with an index of {indices[0].dim()} dims")
    if name == "index_select" and args[0].dim() == 0 and indices[0].numel() != 1:
        raise UnsupportedError(f"{overload} of a scalar with {indices[0].numel()} indices")
    if name in _SAME_DTYPE:
        source = _argument(overload, "source", args, kwargs)
        if source is not None and source.dtype != args[0].dtype:
            raise UnsupportedError(f"{overload} of {args[0].dtype} with {source.dtype}")


def _masks_fit(sizes: Sequence[int], indices: Sequence[torch.Tensor | None]) -> bool:
    """Return whether each mask has the sizes of the dims that it covers."""
    dim = 0
    for index in indices:
        is_mask = index is not None and index.dtype in MASK_DTYPES
        mask_sizes = list(index.shape) if index is not None and is_mask else []
        if mask_sizes != list(sizes[dim : dim + len(mask_sizes)]):
            return False
        dim += len(mask_sizes) if is_mask else 1
    return True


def _indexes_empty_dim(sizes: Sequence[int], indices: Sequence[torch.Tensor | None]) -> bool:
    return any(
        size == 0 and index is not None and index.numel() > 0
        for size, index in zip(sizes, indices, strict=False)
    )


def _argument(
    overload: torch._ops.OpOverload, name: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Return the argument of that name; None if there is none."""
    for position, argument in enumerate(overload._schema.arguments):
        if argument.name == name:
            return args[position] if position < len(args) else kwargs.get(name)
    return None


def _meta_results(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    if overload._schema.name not in TOO_STRICT_META:
        with suppress(*META_FAILURES):
            return pytree.tree_leaves(overload(*args, **kwargs))
    return []


def _type_name(tensor: torch.Tensor) -> str:
    """Return the dtype as PyTorch's messages spell it: Float, Int."""
    return tensor.type().rpartition(".")[2].removesuffix("Tensor")


def _functional_overload(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """Return the overload that accepts the same arguments and returns new tensors."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    inputs = [argument for argument in overload._schema.arguments if not argument.is_out]
    for variant in packet.overloads():
        candidate: torch._ops.OpOverload = getattr(packet, variant)
        schema = candidate._schema
        if not schema.is_mutable and _signature(schema.arguments) == _signature(inputs):
            return candidate
    return None


def _signature(arguments: Sequence[Any]) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in arguments]
