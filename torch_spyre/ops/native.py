"""The overloads that have an eager kernel: by name, without importing the compiler."""

from collections.abc import Iterator

import torch

# Every overload of these: functional, in-place and out=.
_OPS = [
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "erf",
    "floor",
    "ceil",
    "trunc",
    "round",
    "relu",
    "maximum",
    "minimum",
    "pow",
    "fmod",
    "remainder",
    "floor_divide",
    "square",
    "sign",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "where",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "clamp",
    "clamp_min",
    "clamp_max",
    "isnan",
    "isinf",
    "isneginf",
    "isposinf",
    "copysign",
    "gelu",
    "silu",
    "softplus",
    "hardswish",
    "leaky_relu",
    "elu",
    "mish",
    "hardtanh",
    "hardsigmoid",
    "lerp",
    "addcmul",
    "addcdiv",
    "masked_fill",
    "rsub",
    "sum",
    "mean",
    "amax",
    "amin",
    "prod",
    "any",
    "all",
    "argmax",
    "argmin",
    "max",
    "min",
    "var",
    "std",
    "var_mean",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addmv",
    "mv",
    "dot",
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "cat",
    "index",
    "index_select",
    "embedding",
    "gather",
    "tril",
    "triu",
    "constant_pad_nd",
    "arange",
    "fill",
    "full_like",
    "ones_like",
    "zeros_like",
    "fmax",
    "fmin",
    "sgn",
    "frac",
    "nan_to_num",
    "heaviside",
    "threshold",
    "xlogy",
    "tan",
    "cosh",
    "sinh",
    "addbmm",
    "glu",
    "logaddexp",
    "logaddexp2",
    "sinc",
    "addr",
    "vdot",
    "std_mean",
    "aminmax",
    "linalg_vector_norm",
    "norm",
    "nansum",
    "count_nonzero",
    "trace",
    "logsumexp",
    "native_group_norm",
    "linalg_cross",
    "linspace",
    "log_sigmoid_forward",
    "log_sigmoid_backward",
    "hardshrink",
    "softshrink",
    "celu",
    "selu",
    "_prelu_kernel",
    "binary_cross_entropy",
    "smooth_l1_loss",
    "huber_loss",
    "hardswish_backward",
    "hardsigmoid_backward",
    "hardtanh_backward",
    "leaky_relu_backward",
    "elu_backward",
    "softplus_backward",
    "mish_backward",
    "glu_backward",
    "hardshrink_backward",
    "softshrink_backward",
    "_prelu_kernel_backward",
    "binary_cross_entropy_backward",
    "smooth_l1_loss_backward",
    "huber_loss_backward",
    "take",
    "isin",
    "angle",
    "sigmoid_backward",
    "tanh_backward",
    "threshold_backward",
    "gelu_backward",
    "silu_backward",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_layer_norm_backward",
    "nll_loss_forward",
    "soft_margin_loss",
    "mse_loss",
    "mse_loss_backward",
]

# Filling copies one element, in any dtype: the extension's own kernels.
_ELSEWHERE = ("aten::fill_.Scalar", "aten::fill_.Tensor")


# Ops that return more than tensors: they are composed of the ones above.
COMPOSED = (
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_fused_attention_overrideable_backward",
)


def eager_overloads() -> Iterator[torch._ops.OpOverload]:
    # Packets list overloads of TorchScript's too, which no dispatcher knows.
    known = set(torch._C._dispatch_get_all_op_names())
    for name in _OPS:
        for packet_name in (name, f"{name}_"):
            packet = getattr(torch.ops.aten, packet_name, None)
            if packet is None:
                continue
            for variant in packet.overloads():
                overload = getattr(packet, variant)
                if overload.name() in known and _wanted(overload):
                    yield overload


def _wanted(overload: torch._ops.OpOverload) -> bool:
    """Not those that have a kernel, or that PyTorch composes before they reach a device."""
    if overload.name() in _ELSEWHERE:
        return False
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), composite):
        return False
    arguments = overload._schema.arguments
    kinds = [str(argument.type) for argument in arguments]
    if any("Dimname" in kind or kind == "Generator" for kind in kinds):
        return False
    returns = [str(each.type) for each in overload._schema.returns]
    return bool(returns) and all("Tensor" in kind for kind in returns)
