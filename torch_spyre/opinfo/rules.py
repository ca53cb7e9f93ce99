"""Exceptions to the comparison of values, with reasons."""

from torch.testing._internal.opinfo.core import OpInfo

from torch_spyre.testing.op_samples import UNDEFINED, name_of

RANDOM_NOTE = "random: shape, dtype and statistics"
CUDA_ONLY_NOTE = "PyTorch runs it on CUDA only"
EMPTY_ON_CPU_NOTE = "statistics that the CPU does not return are not compared"
UNDEFINED_NOTE = "its values are undefined: shape and dtype only"

# Ops that use the device's random generator: only the distribution is that of the CPU.
RANDOM_SUBSTRINGS = ("dropout", "rrelu", "rand", "normal", "lowrank", "fractional_max_pool")
RANDOM = ("bernoulli", "cauchy", "exponential", "geometric", "multinomial", "uniform")

# With a noncontiguous out=, the CPU writes the wrong elements or none.
NONCONTIGUOUS_OUT_WRONG_ON_CPU = ("narrow_copy", "nn.functional.avg_pool3d", "nn.functional.gelu")
# Conversions to a dtype that the card lacks return a CPU tensor.
RETURNS_CPU_TENSORS = ("double", "to")
# The host reads a number or a bool: the size of the result, or a check of the arguments.
READS_ON_HOST = (
    *(
        "allclose",
        "argwhere",
        "bernoulli",
        "bincount",
        "combinations",
        "corrcoef",
        "cov",
        "equal",
        "item",
    ),
    *(
        "masked_scatter",
        "masked_select",
        "multinomial",
        "narrow",
        "nn.functional.ctc_loss",
        "nn.functional.gaussian_nll_loss",
        "nn.functional.one_hot",
        "normal",
    ),
    *("nonzero", "repeat_interleave", "unique", "unique_consecutive", *RETURNS_CPU_TENSORS),
)
# PyTorch's formula of the gradient reads whether there are zeros or NaN, or a number of elements.
GRADIENT_READS_ON_HOST = (
    *("cumprod", "masked.cumprod", "masked_fill", "masked_scatter", "max.reduction_no_dim"),
    *("median", "min.reduction_no_dim", "nanmedian", "prod"),
)
# In evaluation mode only the CPU returns empty statistics; other devices return the running ones,
# as PyTorch's decomposition does.
EMPTY_ON_CPU = ("native_batch_norm", "_native_batch_norm_legit")
# PyTorch runs them on CUDA only.
CUDA_ONLY = ("jiterator_",)
# PyTorch requires the sections on the CPU for every device.
ARGUMENTS_STAY_ON_CPU = ("tensor_split",)
# Ill-conditioned ops, where rounding of intermediates dominates: the log of a sum near one is
# small, and a softmax of scores in the hundreds selects one of them.
ILL_CONDITIONED = (
    "nn.functional.linear_cross_entropy",
    "nn.functional.multi_head_attention_forward",
)
WIDE = "computes with int64 values that overflow the 32 bits of the card"
# Expected differences, by dtype and op.
EXPECTED_DIFFERENCES = {
    "int64": {
        # They fill masked-out elements with the minimum or maximum of int64.
        "masked.amax": WIDE,
        "masked.amin": WIDE,
        "masked.argmax": WIDE,
        "masked.argmin": WIDE,
        "masked.logsumexp": WIDE,
        # A sample has 2**63 - 1 columns.
        "unravel_index": WIDE,
    },
}
# Ops that accept arguments which the CPU rejects, with reasons.
ACCEPTS_MORE = {
    "native_group_norm": "the CPU's kernel needs an input in a memory format",
}
_PAIR = "the card has no complex dtypes: both parts are copied, and joined by `view_as_real`"
_EMPTY_STATISTICS = "evaluation mode: only the CPU returns empty statistics"
_LARGER_BUFFER = "on the CPU the solution is a view of a larger buffer; its copy is dense"
_FLOAT32_STATISTICS = "PyTorch's fake statistics of 16-bit inputs are float32, as on CUDA"
# Ops whose strides, aliasing or fake results differ from the CPU, with reasons.
METADATA_DIFFERENCES = {
    "_batch_norm_with_update": _FLOAT32_STATISTICS,
    "native_layer_norm": _FLOAT32_STATISTICS,
    "linalg.lstsq": _LARGER_BUFFER,
    "linalg.lstsq.grad_oriented": _LARGER_BUFFER,
    "tensor_split": "it reads the sections on the host, and fake tensors have no values",
    "native_batch_norm": _EMPTY_STATISTICS,
    "_native_batch_norm_legit": _EMPTY_STATISTICS,
    "complex": _PAIR,
    "polar": _PAIR,
    "view_as_complex": _PAIR,
}


def metadata_difference(op: OpInfo) -> str | None:
    """Return why strides, aliasing or fake results of an op differ from the CPU's."""
    return METADATA_DIFFERENCES.get(name_of(op))


def expected_difference(op: OpInfo, dtype: str) -> str | None:
    return EXPECTED_DIFFERENCES.get(dtype, {}).get(name_of(op))


def is_ill_conditioned(op: OpInfo) -> bool:
    return name_of(op).startswith(ILL_CONDITIONED)


def is_random(op: OpInfo) -> bool:
    name = str(op.name)
    return name.startswith(RANDOM) or any(
        substring in name and "normalize" not in name and "_norm" not in name
        for substring in RANDOM_SUBSTRINGS
    )


def may_read_on_host(op: OpInfo, variant: str) -> bool:
    is_listed = name_of(op) in READS_ON_HOST
    return is_listed or (variant == "gradient" and name_of(op) in GRADIENT_READS_ON_HOST)


def note(op: OpInfo) -> str:
    """Return how the comparison of this op is restricted, for the report."""
    if name_of(op).startswith(UNDEFINED):
        return UNDEFINED_NOTE
    if name_of(op).startswith(CUDA_ONLY):
        return CUDA_ONLY_NOTE
    if name_of(op) in EMPTY_ON_CPU:
        return EMPTY_ON_CPU_NOTE
    return RANDOM_NOTE if is_random(op) else ""
