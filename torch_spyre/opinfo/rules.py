"""What is not compared value by value, and why."""

from torch.testing._internal.opinfo.core import OpInfo

from torch_spyre.testing.op_samples import UNDEFINED, name_of

RANDOM_NOTE = "random: values, or else shape, dtype and statistics"
NOT_FOR_CPU_NOTE = "PyTorch runs it on CUDA only"
EMPTY_ON_CPU_NOTE = "statistics that the CPU does not give are not compared"
UNDEFINED_NOTE = "its values are undefined: shape and dtype only"

# They draw from the device's generator, whose sequence is the CPU's where they fall back. Where
# they do not, only the distribution is promised.
RANDOM_PARTS = ("dropout", "rrelu", "rand", "normal", "lowrank", "fractional_max_pool")
RANDOM = ("bernoulli", "cauchy", "exponential", "geometric", "multinomial", "uniform")

# Given an out= with gaps between its elements, the CPU writes the wrong places or none.
WRONG_GAPS_ON_CPU = ("narrow_copy", "nn.functional.avg_pool3d", "nn.functional.gelu")
# The card has no such dtype, and what converts to it gives a tensor on the CPU.
GIVES_CPU_TENSORS = ("double", "to")
# Unless it trains, the CPU alone gives no statistics: other devices give what they were given, as
# PyTorch's decomposition says.
EMPTY_ON_CPU = ("native_batch_norm", "_native_batch_norm_legit")
# PyTorch runs them on CUDA only.
NOT_FOR_CPU = ("jiterator_",)
# PyTorch wants the sections on the CPU, on any device.
ARGUMENTS_STAY_ON_CPU = ("tensor_split",)
# Roundings on the way change these by more than their own roundings: the log of a sum near one is
# small, and a softmax of scores in the hundreds takes one or another.
SENSITIVE = ("nn.functional.linear_cross_entropy", "nn.functional.multi_head_attention_forward")
WIDE = "computes with int64 values beyond the 32 bits that the card keeps"
# Differences that are no fault of an op, by dtype and name.
EXCUSED = {
    "int64": {
        # They put the least or the largest int64 where the mask is not.
        "masked.amax": WIDE,
        "masked.amin": WIDE,
        "masked.argmax": WIDE,
        "masked.argmin": WIDE,
        "masked.logsumexp": WIDE,
        # A sample has as many columns as int64 can count.
        "unravel_index": WIDE,
    },
}
# The op gives a part of a larger buffer, which on the card is a dense copy; or columns, as the
# CPU's library has them; or dims in the order of an input that has gaps.
STRIDES_OF_THEIR_OWN = (
    "linalg.lstsq",
    "linalg.lstsq.grad_oriented",
    "linalg.solve_triangular",
    "nn.functional.max_unpool2d.grad",
)
# The card has no complex numbers, and holds their parts in other tensors.
MEMORY_OF_THEIR_OWN = ("view_as_complex",)


def has_strides(op: OpInfo) -> bool:
    return name_of(op) not in STRIDES_OF_THEIR_OWN


def shares_as_on_cpu(op: OpInfo) -> bool:
    return name_of(op) not in MEMORY_OF_THEIR_OWN


def excuse(op: OpInfo, dtype: str) -> str | None:
    return EXCUSED.get(dtype, {}).get(name_of(op))


def is_sensitive(op: OpInfo) -> bool:
    return name_of(op).startswith(SENSITIVE)


def is_random(op: OpInfo) -> bool:
    name = str(op.name)
    return name.startswith(RANDOM) or any(
        part in name and "normalize" not in name and "_norm" not in name for part in RANDOM_PARTS
    )


def note(op: OpInfo) -> str:
    """What a reader of the table must know about how the op is compared."""
    if name_of(op).startswith(UNDEFINED):
        return UNDEFINED_NOTE
    if name_of(op).startswith(NOT_FOR_CPU):
        return NOT_FOR_CPU_NOTE
    if name_of(op) in EMPTY_ON_CPU:
        return EMPTY_ON_CPU_NOTE
    return RANDOM_NOTE if is_random(op) else ""
