"""Random ops: a draw when the graph runs, and values that are computed from it.

The distributions are those of the eager kernels (`ops/random.py`), so that a graph has the values
of eager mode for the same state of the generator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import COMPUTE_DTYPES, FLOAT_DTYPES
from torch_spyre.ops import random_values

aten = torch.ops.aten
Values = Callable[[torch.Tensor, Sequence[int], torch.dtype], torch.Tensor]


def _with(values: Callable[..., torch.Tensor], *parameters: Any) -> Values:
    """Return the values of a distribution with these parameters."""
    return lambda draw, size, dtype: values(draw, size, dtype, *parameters)


def _filled(x: torch.Tensor, dtypes: Sequence[torch.dtype], values: Values) -> Any:
    """Return values of the size and dtype of a tensor."""
    if x.device.type != DEVICE_NAME or x.dtype not in dtypes:
        return NotImplemented
    if x.numel() == 0:
        return torch.empty_like(x)
    return values(random_values.draw_in_graph(x.device), x.shape, x.dtype)


def _created(
    size: Sequence[int],
    dtype: torch.dtype | None,
    device: torch.device | None,
    generator: torch.Generator | None,
    fill: Callable[[torch.Tensor], torch.Tensor],
) -> Any:
    """Return the result of `fill` for a new tensor, which it only reads the metadata of."""
    if device is None or torch.device(device).type != DEVICE_NAME or generator is not None:
        return NotImplemented
    return fill(torch.empty(size, dtype=dtype, device=device))


@register_decomposition(aten.normal_functional.default)
def _normal(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    return _filled(x, FLOAT_DTYPES, _with(random_values.normal, mean, std))


@register_decomposition(aten.log_normal.default)
def _log_normal(x: torch.Tensor, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
    return _filled(x, FLOAT_DTYPES, _with(random_values.log_normal, mean, std))


@register_decomposition(aten.cauchy.default)
def _cauchy(x: torch.Tensor, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
    return _filled(x, FLOAT_DTYPES, _with(random_values.cauchy, median, sigma))


@register_decomposition(aten.exponential.default)
def _exponential(x: torch.Tensor, lambd: float = 1.0, generator: Any = None) -> Any:
    inverse = random_values.inverse_rate(lambd)
    return _filled(x, FLOAT_DTYPES, _with(random_values.exponential, inverse))


@register_decomposition(aten.geometric.default)
def _geometric(x: torch.Tensor, p: float, generator: Any = None) -> Any:
    inverse = random_values.inverse_log(p)
    return _filled(x, COMPUTE_DTYPES, _with(random_values.geometric, inverse))


@register_decomposition(aten.uniform.default)
def _uniform(x: torch.Tensor, lower: float = 0.0, upper: float = 1.0, generator: Any = None) -> Any:
    parameters = random_values.uniform_parameters(lower, upper, x.dtype)
    return _filled(x, FLOAT_DTYPES, _with(random_values.uniform, *parameters))


@register_decomposition(aten.bernoulli.p)
def _bernoulli(x: torch.Tensor, p: float = 0.5, generator: Any = None) -> Any:
    return _filled(x, COMPUTE_DTYPES, _with(random_values.bernoulli, p))


@register_decomposition(aten.bernoulli.Tensor)
def _bernoulli_of(x: torch.Tensor, p: torch.Tensor, generator: Any = None) -> Any:
    if p.dtype not in FLOAT_DTYPES:
        return NotImplemented
    probability = p.to(torch.float32)
    return _filled(x, COMPUTE_DTYPES, _with(random_values.bernoulli, probability))


@register_decomposition(aten.bernoulli.default)
def _bernoulli_of_itself(x: torch.Tensor, generator: Any = None) -> Any:
    return _bernoulli_of(x, x)


@register_decomposition(getattr(aten.random, "from"))
def _random_from(x: torch.Tensor, start: int, end: int | None, generator: Any = None) -> Any:
    stop = random_values.end_of_random(x.dtype) if end is None else end
    parameters = random_values.integer_parameters(start, stop)
    return _filled(x, COMPUTE_DTYPES, _with(random_values.integers, *parameters))


@register_decomposition(aten.random.to)
def _random_to(x: torch.Tensor, end: int, generator: Any = None) -> Any:
    return _random_from(x, 0, end)


@register_decomposition(aten.random.default)
def _random(x: torch.Tensor, generator: Any = None) -> Any:
    return _random_from(x, 0, None)


# --- New tensors ----------------------------------------------------------------------------------


@register_decomposition(aten.rand.default, aten.rand.generator)
def _rand(
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **options: Any,
) -> Any:
    return _created(size, dtype, device, generator, _uniform)


@register_decomposition(aten.randn.default, aten.randn.generator)
def _randn(
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **options: Any,
) -> Any:
    return _created(size, dtype, device, generator, _normal)


@register_decomposition(aten.randint.low, aten.randint.low_generator)
def _randint_from(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = torch.int64,
    device: torch.device | None = None,
    **options: Any,
) -> Any:
    kind = torch.int64 if dtype is None else dtype
    return _created(size, kind, device, generator, lambda x: _random_from(x, low, high))


@register_decomposition(aten.randint.default, aten.randint.generator)
def _randint(high: int, size: Sequence[int], **options: Any) -> Any:
    return _randint_from(0, high, size, **options)


def _like(x: torch.Tensor, options: dict[str, Any]) -> Any:
    """Return a new tensor with the options of an op such as `rand_like`."""
    options.pop("generator", None)
    return torch.empty_like(x, **options)


@register_decomposition(aten.rand_like.default)
def _rand_like(x: torch.Tensor, **options: Any) -> Any:
    return _uniform(_like(x, options))


@register_decomposition(aten.randn_like.default)
def _randn_like(x: torch.Tensor, **options: Any) -> Any:
    return _normal(_like(x, options))


@register_decomposition(aten.randint_like.default)
def _randint_like(x: torch.Tensor, high: int, **options: Any) -> Any:
    return _random_from(_like(x, options), 0, high)


@register_decomposition(aten.randint_like.low_dtype)
def _randint_like_from(x: torch.Tensor, low: int, high: int, **options: Any) -> Any:
    return _random_from(_like(x, options), low, high)


@register_decomposition(aten.normal.float_float)
def _normal_of_size(
    mean: float,
    std: float,
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **options: Any,
) -> Any:
    return _created(size, dtype, device, generator, lambda x: _normal(x, mean, std))


@register_decomposition(
    aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor
)
def _normal_of_tensors(
    mean: torch.Tensor | float, std: torch.Tensor | float = 1.0, *, generator: Any = None
) -> Any:
    tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
    dtype = torch.result_type(mean, std)
    if tensors[0].device.type != DEVICE_NAME or dtype not in FLOAT_DTYPES:
        return NotImplemented
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    draws = _normal(tensors[0].new_empty(shape, dtype=torch.float32))
    return (draws * std + mean).to(dtype)


@register_decomposition(aten.randperm.default)
def _randperm(
    n: int,
    *,
    dtype: torch.dtype | None = torch.int64,
    device: torch.device | None = None,
    **options: Any,
) -> Any:
    words = _created((n,), torch.int32, device, None, lambda x: _random_from(x, -(2**31), None))
    if words is NotImplemented:
        return NotImplemented
    return words.sort(stable=True).indices.to(torch.int64 if dtype is None else dtype)


# --- Dropout and activations ----------------------------------------------------------------------


@register_decomposition(aten.native_dropout.default)
def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> Any:
    if x.device.type != DEVICE_NAME or x.dtype not in FLOAT_DTYPES:
        return NotImplemented
    if train is False or x.numel() == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    scale = random_values.dropout_scale(p)
    return random_values.dropout(random_values.draw_in_graph(x.device), x, 1 - p, scale)


@register_decomposition(aten.rrelu_with_noise_functional.default)
def _rrelu_with_noise(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    if x.device.type != DEVICE_NAME or x.dtype not in FLOAT_DTYPES:
        return NotImplemented
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise.clone()
    slopes = torch.where(x <= 0, _uniform(torch.empty_like(x), lower, upper), 1.0)
    return x * slopes, slopes
