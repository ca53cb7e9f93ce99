"""Eager kernels of random ops: each draws from a generator and computes its values on the card.

The words of the draw and the parameters of the distribution are tensors, so that one program serves
all seeds, offsets and parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import COMPUTE_DTYPES, FLOAT_DTYPES
from torch_spyre.ops import random_values
from torch_spyre.ops.random_arguments import DTYPES, IS_VALID, check, is_in_range
from torch_spyre.ops.spyre_ops import defines

Kernel = Callable[..., Any]
Generator = torch.Generator | None


def _defines_fill(name: str, values: Callable[..., torch.Tensor]) -> torch._ops.OpOverload:
    """Define an op that fills a tensor from the words of a draw and a tensor of parameters."""

    def fill(x: torch.Tensor, draw: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
        return x.copy_(values(draw, x.shape, x.dtype, *_scalars(parameters)))

    return defines(f"{name}_(Tensor(a!) x, Tensor draw, Tensor parameters) -> Tensor(a!)")(fill)


_FILLS = {
    values.__name__: _defines_fill(f"fill_{values.__name__}", values)
    for values in (
        random_values.bernoulli,
        random_values.cauchy,
        random_values.exponential,
        random_values.geometric,
        random_values.integers,
        random_values.log_normal,
        random_values.normal,
        random_values.uniform,
    )
}


@defines(
    "fill_bernoulli_of_(Tensor(a!) x, Tensor draw, Tensor probabilities) -> Tensor(a!)",
)
def fill_bernoulli_of(
    x: torch.Tensor, draw: torch.Tensor, probabilities: torch.Tensor
) -> torch.Tensor:
    values = random_values.bernoulli(draw, x.shape, x.dtype, probabilities.to(torch.float32))
    return x.copy_(values)


@defines("dropout(Tensor x, Tensor draw, Tensor parameters) -> (Tensor, Tensor)")
def dropout(
    x: torch.Tensor, draw: torch.Tensor, parameters: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    keep_probability, scale = _scalars(parameters)
    return random_values.dropout(draw, x, keep_probability, scale)


def draw_words(x: torch.Tensor, generator: Generator) -> torch.Tensor:
    """Return the words of a draw for a tensor, from its card's generator if none is given."""
    if x.device.type != DEVICE_NAME:  # the call was dispatched here because of the generator
        raise RuntimeError(
            f"Expected a '{x.device.type}' device type for generator but found '{DEVICE_NAME}'"
        )
    return _C._draw_words(1, x.device.index, generator)


def _column(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return values in a column on the card; see `random_values`."""
    return torch.tensor(values, dtype=dtype).unsqueeze(1).to(device)


def _scalars(parameters: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the elements of a column."""
    return parameters.flatten().unbind()


def _floats(x: torch.Tensor, *values: float) -> torch.Tensor:
    return _column(values, torch.float32, x.device)


def _on_cpu(op: str, overload: str, args: Sequence[Any], generator: Generator) -> torch.Tensor:
    """Run an op on the CPU, for a dtype that the card only stores or that PyTorch rejects."""
    result: torch.Tensor = _C._run_on_cpu(
        f"aten::{op}", overload, tuple(args), {"generator": generator}
    )
    return result


class RandomKernels:
    """The kernels of random ops; `kernel` returns the kernel of an op of the `spyre` namespace."""

    def __init__(self, kernel: Callable[[torch._ops.OpOverload], Kernel]) -> None:
        self._fills = {name: kernel(overload) for name, overload in _FILLS.items()}
        self._bernoulli_of = kernel(fill_bernoulli_of)
        self._dropout = kernel(dropout)

    # In-place ops

    def normal_(
        self,
        x: torch.Tensor,
        mean: float = 0,
        std: float = 1,
        *,
        generator: Generator = None,
    ) -> torch.Tensor:
        return self._filled("normal_", "normal", x, (mean, std), (mean, std), generator)

    def log_normal_(
        self,
        x: torch.Tensor,
        mean: float = 1,
        std: float = 2,
        *,
        generator: Generator = None,
    ) -> torch.Tensor:
        return self._filled("log_normal_", "log_normal", x, (mean, std), (mean, std), generator)

    def cauchy_(
        self,
        x: torch.Tensor,
        median: float = 0,
        sigma: float = 1,
        *,
        generator: Generator = None,
    ) -> torch.Tensor:
        return self._filled("cauchy_", "cauchy", x, (median, sigma), (median, sigma), generator)

    def exponential_(
        self, x: torch.Tensor, lambd: float = 1, *, generator: Generator = None
    ) -> torch.Tensor:
        inverse = random_values.inverse_rate(lambd)
        return self._filled("exponential_", "exponential", x, (lambd,), (inverse,), generator)

    def geometric_(self, x: torch.Tensor, p: float, *, generator: Generator = None) -> torch.Tensor:
        inverse = random_values.inverse_log(p)
        return self._filled("geometric_", "geometric", x, (p,), (inverse,), generator)

    def uniform_(
        self,
        x: torch.Tensor,
        from_: float = 0,
        to: float = 1,
        *,
        generator: Generator = None,
        **lower: float,
    ) -> torch.Tensor:
        bounds = (lower.get("from", from_), to)
        parameters = random_values.uniform_parameters(*bounds, x.dtype)
        return self._filled("uniform_", "uniform", x, bounds, parameters, generator)

    def bernoulli_float(
        self, x: torch.Tensor, p: float = 0.5, *, generator: Generator = None
    ) -> torch.Tensor:
        return self._filled("bernoulli_", "bernoulli", x, (p,), (p,), generator)

    def bernoulli_tensor(
        self, x: torch.Tensor, p: torch.Tensor, *, generator: Generator = None
    ) -> torch.Tensor:
        if x.dtype not in COMPUTE_DTYPES or p.dtype not in FLOAT_DTYPES:
            return _on_cpu("bernoulli_", "Tensor", (x, p), generator)
        p = p.to(x.device)
        torch.broadcast_to(p, x.shape)  # raises an error if it cannot be
        if x.numel():
            if not ((p >= 0) & (p <= 1)).all().item():
                raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
            self._bernoulli_of(x, draw_words(x, generator), p)
        return x

    def random_(self, x: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
        return self._integers(x, 0, random_values.end_of_random(x.dtype), generator)

    def random_to(self, x: torch.Tensor, to: int, *, generator: Generator = None) -> torch.Tensor:
        return self.random_from(x, 0, to, generator=generator)

    def random_from(
        self,
        x: torch.Tensor,
        from_: int = 0,
        to: int | None = None,
        *,
        generator: Generator = None,
        **lower: int,
    ) -> torch.Tensor:
        start = lower.get("from", from_)
        if x.dtype not in COMPUTE_DTYPES:
            return _on_cpu("random_", "from", (x, start, to), generator)
        check("random_", is_in_range(x.dtype, start, to), x.dtype, start, to)
        end = random_values.end_of_random(x.dtype) if to is None else to
        return self._integers(x, start, end, generator)

    def _integers(
        self, x: torch.Tensor, start: int, end: int, generator: Generator
    ) -> torch.Tensor:
        if x.dtype not in COMPUTE_DTYPES:
            return _on_cpu("random_", "", (x,), generator)
        parameters = random_values.integer_parameters(start, end)
        if x.numel():
            draw = draw_words(x, generator)
            words = _column(parameters, torch.int32, x.device)
            self._fills["integers"](x, draw, words)
        return x

    def _filled(
        self,
        op: str,
        distribution: str,
        x: torch.Tensor,
        arguments: Sequence[float],
        parameters: Sequence[float],
        generator: Generator,
    ) -> torch.Tensor:
        """Fill a tensor from a distribution; `arguments` are those of the op, which checks them."""
        if x.dtype not in DTYPES[op]:
            return _on_cpu(op, "float" if op == "bernoulli_" else "", (x, *arguments), generator)
        check(op, IS_VALID[op](*arguments), x.dtype, *arguments)
        if x.numel():
            draw = draw_words(x, generator)
            self._fills[distribution](x, draw, _floats(x, *parameters))
        return x

    # Dropout

    def native_dropout(
        self, x: torch.Tensor, p: float, train: bool | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if train is False:
            return x.clone(), torch.ones_like(x, dtype=torch.bool)
        if x.dtype not in FLOAT_DTYPES:
            mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
            # In-place, so that dropout of integers is an error, as on other devices.
            return (x * mask).mul_(random_values.dropout_scale(p)), mask
        if not x.numel():
            return x.clone(), torch.empty_like(x, dtype=torch.bool)
        check("bernoulli_", 0 <= p <= 1, x.dtype, 1 - p)
        draw = draw_words(x, None)
        parameters = _floats(x, 1 - p, random_values.dropout_scale(p))
        result: tuple[torch.Tensor, torch.Tensor] = self._dropout(x, draw, parameters)
        return result

    def by_overload(self) -> dict[str, Kernel]:
        """Return the kernels by overload."""
        return {
            "bernoulli_.float": self.bernoulli_float,
            "bernoulli_.Tensor": self.bernoulli_tensor,
            "cauchy_": self.cauchy_,
            "exponential_": self.exponential_,
            "geometric_": self.geometric_,
            "log_normal_": self.log_normal_,
            "native_dropout": self.native_dropout,
            "normal_": self.normal_,
            "random_": self.random_,
            "random_.from": self.random_from,
            "random_.to": self.random_to,
            "uniform_": self.uniform_,
        }
