"""Random values on the card: distributions as functions of the words of a draw.

The generator is counter-based: Philox 4x32-10 maps the seed, the number of the draw and the index
of an element to random words. So a value depends on nothing else: not on tiles, cores, layouts, or
on whether a draw is compiled with others. Eager kernels and compiled graphs use these functions.

The words of a draw are an int32 tensor of size (4, 1): the seed and the number of the draw. Each
has a stick of its own on the card, so that kernels broadcast it without a copy.
"""

import math
from collections.abc import Sequence
from ctypes import c_float
from itertools import count

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.ops.hand_written import HAND_WRITTEN_OPS

# A parameter of a distribution: a constant, or a tensor that broadcasts.
Parameter = float | torch.Tensor
WORDS_PER_DRAW = 4

_library = torch.library.Library("spyre", "FRAGMENT")
# The word of this number in the block of each element. Element i in row-major order has counter i.
_library.define("random_words(Tensor draw, SymInt[] size, int word) -> Tensor")
# The upper halves of the unsigned products of int32 words.
_library.define("upper_half(Tensor left, Tensor right) -> Tensor")
# `call` tells the draws of a graph apart, which would be common subexpressions otherwise.
_library.define(
    "draw(int count, Device device, int call) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)


def _empty_words(draw: torch.Tensor, size: Sequence[int], word: int) -> torch.Tensor:
    return draw.new_empty(size, dtype=torch.int32)


def _draw(count: int, device: torch.device, call: int) -> torch.Tensor:
    if device.type != DEVICE_NAME:  # a fake tensor
        return torch.empty((WORDS_PER_DRAW * count, 1), dtype=torch.int32, device=device)
    return _C._draw_words(count, _C.current_device() if device.index is None else device.index)


def _empty_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left.new_empty(torch.broadcast_shapes(left.shape, right.shape))


_library.impl("upper_half", _empty_products, "Meta")
_library.impl("random_words", _empty_words, "Meta")
_library.impl("draw", _draw, "BackendSelect")
RANDOM_WORDS: torch._ops.OpOverload = torch.ops.spyre.random_words.default
UPPER_HALF: torch._ops.OpOverload = torch.ops.spyre.upper_half.default
DRAW: torch._ops.OpOverload = torch.ops.spyre.draw.default
HAND_WRITTEN_OPS.add(DRAW)
_calls = count()


def draw_in_graph(device: torch.device) -> torch.Tensor:
    """Return the words of a draw in a graph that is traced, which draws when it runs."""
    words: torch.Tensor = DRAW(1, device, next(_calls))
    return words


# --- Uniform words --------------------------------------------------------------------------------


def _words(draw: torch.Tensor, size: Sequence[int], word: int = 0) -> torch.Tensor:
    words: torch.Tensor = RANDOM_WORDS(draw, size, word)
    return words


def _unit(draw: torch.Tensor, size: Sequence[int], word: int = 0) -> torch.Tensor:
    """Return multiples of 2**-24 in [0, 1) in float32."""
    return (_words(draw, size, word) & 0xFFFFFF).to(torch.float32) * 2.0**-24


def _positive_unit(draw: torch.Tensor, size: Sequence[int], word: int = 0) -> torch.Tensor:
    """Return values in (0, 1] in float32, the lowest 2**-31, for logarithms."""
    return ((_words(draw, size, word) & 0x7FFFFFFF).to(torch.float32) + 1) * 2.0**-31


# --- Distributions --------------------------------------------------------------------------------

# The digits of a dtype's significand on the card; of float16 those of SEN169.
_DIGITS = {torch.float32: 24, torch.bfloat16: 8, torch.float16: 10}


def uniform_parameters(
    lower: float, upper: float, dtype: torch.dtype
) -> tuple[float, float, float, float]:
    """Return the parameters of `uniform`: `upper` is not in the interval unless it is empty."""
    width, end = upper - lower, c_float(upper).value  # as kernels read it
    return lower, width, end, max(lower, _predecessor(end, _DIGITS.get(dtype, 4)))


def _predecessor(value: float, digits: int) -> float:
    """Return the largest float below a value whose significand has this number of digits."""
    if value == 0 or not math.isfinite(value):
        return -(2.0**-24) if value == 0 else value
    fraction, exponent = math.frexp(value)
    spacing = math.ldexp(1, exponent - digits)
    if fraction == 0.5:
        spacing /= 2
    return (math.ceil(value / spacing) - 1) * spacing


def uniform(
    draw: torch.Tensor,
    size: Sequence[int],
    dtype: torch.dtype,
    lower: Parameter,
    width: Parameter,
    upper: Parameter,
    last: Parameter,
) -> torch.Tensor:
    """Return values in [lower, upper). Those that round to `upper` become `last`."""
    value = _unit(draw, size) * width + lower
    rounded = value.to(dtype).to(torch.float32)
    return torch.where(rounded < upper, rounded, last).to(dtype)


def standard_normal(draw: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Return the cosine of a Box-Muller pair in float32: values up to 6.6 in magnitude."""
    radius = torch.sqrt(torch.log(_positive_unit(draw, size)) * -2.0)
    return radius * torch.cos(_unit(draw, size, 1) * (2 * math.pi))


def normal(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, mean: Parameter, std: Parameter
) -> torch.Tensor:
    return (standard_normal(draw, size) * std + mean).to(dtype)


def log_normal(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, mean: Parameter, std: Parameter
) -> torch.Tensor:
    return torch.exp(standard_normal(draw, size) * std + mean).to(dtype)


def inverse_rate(rate: float) -> float:
    """Return the parameter of `exponential`."""
    return 1 / rate if rate else math.inf


def exponential(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, scale: Parameter
) -> torch.Tensor:
    """Return positive values, also for the words whose logarithm is zero."""
    value = torch.clamp_min(-torch.log(_positive_unit(draw, size)), 2.0**-24)
    return (value * scale).to(dtype)


def inverse_log(probability: float) -> float:
    """Return the parameter of `geometric`."""
    return 1 / math.log1p(-probability) if 0 < probability < 1 else 0.0


def geometric(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, scale: Parameter
) -> torch.Tensor:
    """Return the number of trials until the first success; `scale` is 1 / log(1 - p)."""
    trials = torch.ceil(torch.log(_positive_unit(draw, size)) * scale)
    return torch.clamp_min(trials, 1).to(dtype)


def cauchy(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, median: Parameter, sigma: Parameter
) -> torch.Tensor:
    # The middle of the interval of each word, so that the tangent is finite.
    angle = (_unit(draw, size) - (0.5 - 2.0**-25)) * math.pi
    return (torch.tan(angle) * sigma + median).to(dtype)


def bernoulli(
    draw: torch.Tensor, size: Sequence[int], dtype: torch.dtype, probability: Parameter
) -> torch.Tensor:
    return (_unit(draw, size) < probability).to(dtype)


def largest_exact_integer(dtype: torch.dtype) -> int:
    """Return up to which integer a float dtype holds all integers, on the CPU."""
    return int(2 / torch.finfo(dtype).eps)


def end_of_random(dtype: torch.dtype) -> int:
    """Return the end of the integers that `random_` draws from without one."""
    if dtype.is_floating_point:
        return largest_exact_integer(dtype) + 1
    if dtype is torch.bool:
        return 2
    largest: int = torch.iinfo(dtype).max
    return min(largest, 2**31 - 1) + 1


def integer_parameters(start: int, end: int) -> tuple[int, int]:
    """Return the parameters of `integers`: the card stores the low 32 bits of an integer."""
    width = end - start
    return _to_word(start), _to_word(width) if width < 2**32 else 0


def _to_word(value: int) -> int:
    """Return the low 32 bits of an integer, as a signed one."""
    return (value + 2**31) % 2**32 - 2**31


def integers(
    draw: torch.Tensor,
    size: Sequence[int],
    dtype: torch.dtype,
    lower: int | torch.Tensor,
    width: int | torch.Tensor,
) -> torch.Tensor:
    """Return integers in [lower, lower + width).

    Both are 32-bit words; a width of 0 stands for 2**32. The result is the quotient of 64 random
    bits times the width by 2**64, whose bias is below 2**-32.
    """
    high, low = _words(draw, size), _words(draw, size, 1)
    if not isinstance(width, torch.Tensor):
        width = torch.full((), width, dtype=torch.int32, device=draw.device)
    part = high * width
    total = part + UPPER_HALF(low, width)
    carry = _is_less_unsigned(total, part).to(torch.int32)
    value = torch.where(width == 0, high, UPPER_HALF(high, width) + carry)
    return (value + lower).to(dtype)


def _is_less_unsigned(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    lowest = -(2**31)
    return (left ^ lowest) < (right ^ lowest)


def dropout_scale(p: float) -> float:
    """Return the factor of the elements that dropout keeps."""
    return 0.0 if p == 1 else 1 / (1 - p)


def dropout(
    draw: torch.Tensor, x: torch.Tensor, keep_probability: Parameter, scale: Parameter
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the kept elements times `scale`, and which are kept."""
    mask = bernoulli(draw, x.shape, torch.bool, keep_probability)
    # A product, as on other devices: NaN times zero is NaN.
    return (x.to(torch.float32) * (mask.to(torch.float32) * scale)).to(x.dtype), mask
