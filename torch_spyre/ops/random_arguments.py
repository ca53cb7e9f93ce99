"""The arguments that random ops accept. PyTorch's CPU kernels raise the errors for others."""

from collections.abc import Callable

import torch

from torch_spyre.dtypes import COMPUTE_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES

# The dtypes that PyTorch draws by an op, of those that the card computes with.
DTYPES: dict[str, tuple[torch.dtype, ...]] = {
    "bernoulli_": COMPUTE_DTYPES,
    "cauchy_": FLOAT_DTYPES,
    "exponential_": FLOAT_DTYPES,
    "geometric_": (*FLOAT_DTYPES, *INTEGER_DTYPES),
    "log_normal_": FLOAT_DTYPES,
    "normal_": FLOAT_DTYPES,
    "uniform_": FLOAT_DTYPES,
}


def is_in_range(dtype: torch.dtype, start: int, end: int | None) -> bool:
    """Return whether a dtype holds the integers that `random_` shall draw from."""
    last = start if end is None else end - 1
    if start > last:
        return False
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        return limits.min <= start and last <= limits.max
    if dtype is torch.bool:
        return start in (0, 1) and last in (0, 1)
    integers = torch.iinfo(dtype)
    return integers.min <= start and last <= integers.max


_LARGEST = torch.finfo(torch.float32).max
# Whether PyTorch accepts the arguments of an op.
IS_VALID: dict[str, Callable[..., bool]] = {
    "bernoulli_": lambda p: 0 <= p <= 1,
    "cauchy_": lambda median, sigma: sigma > 0,
    "exponential_": lambda rate: rate > 0,
    "geometric_": lambda p: 0 < p < 1,
    "log_normal_": lambda mean, std: std > 0,
    "normal_": lambda mean, std: std >= 0,
    "uniform_": lambda lower, upper: lower <= upper and upper - lower <= _LARGEST,
}


def check(op: str, is_valid: bool, dtype: torch.dtype, *arguments: float | None) -> None:
    """Raise the error of PyTorch's CPU kernel for invalid arguments."""
    if not is_valid:
        getattr(torch.empty(1, dtype=dtype), op)(*arguments)
        raise AssertionError(f"{op} accepts {arguments}")
