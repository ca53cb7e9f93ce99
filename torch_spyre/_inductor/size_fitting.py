"""Finds how the integers of a compiled call depend on its sizes.

A call is compiled for several sizes. If the results have the same structure, each integer that
differs is fitted: to a sum of size symbols with integer factors, or to the number of sticks that
such a sum of elements fills. A fit must be exact for every sample; there are more samples than
unknowns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import mul

import sympy
from sympy import Symbol

from torch_spyre._inductor.dynamic_sizes import SizeRange
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre.errors import UnsupportedError

Sizes = tuple[int, ...]
# The sizes and strides of a tensor on the host.
HostShape = tuple[Sizes, Sizes]


def sample_sizes(ranges: Sequence[SizeRange]) -> list[Sizes]:
    """Return combinations of sizes that determine every fit in these ranges.

    The first has the largest sizes. Functions of sizes are monotone: one with equal values at both
    ends of a range is constant in it.
    """
    largest = tuple(limits.maximum for limits in ranges)
    samples = [largest]
    for position, limits in enumerate(ranges):
        samples.append((*largest[:position], limits.minimum, *largest[position + 1 :]))
    if len(ranges) > 1:
        samples.append(tuple(limits.minimum for limits in ranges))
    for third in (1, 2):
        samples.append(tuple(_part_of(limits, third) for limits in ranges))
    return samples


def _part_of(limits: SizeRange, thirds: int) -> int:
    return limits.minimum + (limits.maximum - limits.minimum) * thirds // 3


@dataclass(frozen=True)
class SizeFit:
    """Fits integers whose values for every sample are known."""

    symbols: Sequence[Symbol]
    samples: Sequence[Sizes]

    def fit(self, values: Sequence[int]) -> sympy.Expr | int:
        """Return the sum of sizes with these values; raise UnsupportedError if there is none."""
        if len(set(values)) == 1:
            return values[0]
        expression = self._sum_of_sizes(values)
        if expression is None:
            raise UnsupportedError(f"a size that is {list(values)} where sizes are {self.samples}")
        return expression

    def fit_device_sizes(
        self, tensors: Sequence[HostShape], rows: Sequence[Sequence[int]], steps: Sequence[int]
    ) -> list[sympy.Expr | int]:
        """Return the sizes of a tensor's device dims; one of them may count sticks.

        `tensors` are its shapes on the host, `rows` its device sizes, and `steps` the host elements
        from one index of a device dim to the next.
        """
        stick, lane_step = rows[0][-1], steps[-1]
        sizes: list[sympy.Expr | int] = []
        for values, step in zip(zip(*rows, strict=True), steps, strict=True):
            counts_sticks = step == stick * lane_step and self._sum_of_sizes(values) is None
            sizes.append(
                self._stick_count(tensors, values, lane_step, stick)
                if counts_sticks
                else self.fit(values)
            )
        return sizes

    def _stick_count(
        self, tensors: Sequence[HostShape], values: Sequence[int], lane_step: int, stick: int
    ) -> sympy.Expr:
        """Return how many sticks the host dim fills that lanes run along."""
        size, stride = tensors[0]
        for dim, step in enumerate(stride):
            lengths = [size[dim] for size, _ in tensors]
            if step == lane_step and values == tuple(-(-length // stick) for length in lengths):
                return sympy.ceiling(sympy.sympify(self.fit(lengths)) / stick)
        raise UnsupportedError(f"{list(values)} sticks where sizes are {self.samples}")

    def _sum_of_sizes(self, values: Sequence[int]) -> sympy.Expr | None:
        factors = self._factors(values)
        if factors is None:
            return None
        constant = values[0] - sum(f * s for f, s in zip(factors, self.samples[0], strict=True))
        for sizes, value in zip(self.samples, values, strict=True):
            if constant + sum(f * s for f, s in zip(factors, sizes, strict=True)) != value:
                return None
        terms = (f * symbol for f, symbol in zip(factors, self.symbols, strict=True))
        return sympy.Add(constant, *terms)

    def _factors(self, values: Sequence[int]) -> list[int] | None:
        """Return the factor of each symbol, from the samples that differ in one symbol only."""
        base, factors = self.samples[0], []
        for position in range(len(self.symbols)):
            sizes, value = self.samples[1 + position], values[1 + position]
            factor = Fraction(value - values[0], sizes[position] - base[position])
            if factor.denominator != 1 or factor < 0:
                return None
            factors.append(int(factor))
        return factors


def fit_specs(
    samples: Sequence[Sequence[OpSpec]],
    sizes: SizeFit,
    shapes: Mapping[str, Sequence[HostShape]],
) -> list[OpSpec]:
    """Return the specs of one program with expressions of the size symbols.

    `shapes` are those of the tensors on the host, for each sample.
    """
    if len({len(specs) for specs in samples}) != 1:
        raise UnsupportedError("programs of different ops for different sizes")
    return [_fit_spec(specs, sizes, shapes) for specs in zip(*samples, strict=True)]


def _fit_spec(
    specs: Sequence[OpSpec], sizes: SizeFit, shapes: Mapping[str, Sequence[HostShape]]
) -> OpSpec:
    first = specs[0]
    if any(list(spec.sizes) != list(first.sizes) for spec in specs):
        raise UnsupportedError("loops that differ for different sizes")
    for spec in specs[1:]:
        if _kind(spec) != _kind(first):
            raise UnsupportedError(f"ops that differ for different sizes: {first.op} and {spec.op}")
    space = {
        symbol: (sympy.sympify(sizes.fit([spec.sizes[symbol] for spec in specs])), 1)
        for symbol in first.iteration_space
    }
    args = [
        _fit_arg(args, sizes, shapes) for args in zip(*(spec.args for spec in specs), strict=True)
    ]
    return replace(first, iteration_space=space, args=args)


def _kind(spec: OpSpec) -> object:
    # As text: NaN is a constant of some ops, and differs from itself.
    return spec.op, spec.is_reduction, repr(spec.op_info), len(spec.args)


def _fit_arg(
    args: Sequence[TensorArg], sizes: SizeFit, shapes: Mapping[str, Sequence[HostShape]]
) -> TensorArg:
    first = args[0]
    for arg in args[1:]:
        if _identity(arg) != _identity(first):
            raise UnsupportedError("tensors that differ for different sizes")
    coordinates = _fit_coordinates(args, sizes)
    if first.stride_map is None or first.name is None or first.name not in shapes:
        # In the scratchpad, where tiles have the sizes of loops.
        return replace(first, device_coordinates=coordinates)
    rows = [arg.device_size for arg in args]
    return replace(
        first,
        device_size=sizes.fit_device_sizes(shapes[first.name], rows, first.stride_map),
        device_coordinates=coordinates,
        stride_map=[
            sizes.fit(steps) for steps in zip(*(arg.stride_map or () for arg in args), strict=True)
        ],
    )


def _identity(arg: TensorArg) -> object:
    return (
        *(arg.is_input, arg.arg_index, arg.device_dtype, dict(arg.allocation), arg.name),
        *(arg.per_tile_fixed, len(arg.device_size), arg.device_size[-1]),
    )


def _fit_coordinates(args: Sequence[TensorArg], sizes: SizeFit) -> tuple[sympy.Expr, ...]:
    rows = [list(map(sympy.sympify, arg.device_coordinates)) for arg in args]
    columns = list(zip(*rows, strict=True))
    element = _element_of_sticks(args, columns)
    if element is None:
        return tuple(_fit_coordinate(column, sizes) for column in columns)
    dim, stick = element, args[0].elements_per_stick
    position = sympy.sympify(sizes.fit([int(row[dim]) * stick + int(row[-1]) for row in rows]))
    fitted = [
        sympy.S.Zero if other == dim else _fit_coordinate(column, sizes)
        for other, column in enumerate(columns[:-1])
    ]
    fitted[dim] = sympy.floor(position / stick)
    return (*fitted, sympy.Mod(position, stick))


def _element_of_sticks(
    args: Sequence[TensorArg], columns: Sequence[Sequence[sympy.Expr]]
) -> int | None:
    """Return the dim that counts sticks, if an access is to one element whose lane varies."""
    first = args[0]
    if len(set(columns[-1])) == 1 or first.stride_map is None:
        return None
    step = first.stride_map[-1] * first.elements_per_stick
    for dim, column in enumerate(columns[:-1]):
        if first.stride_map[dim] == step and all(value.is_Integer for value in column):
            return dim if all(value.is_Integer for value in columns[-1]) else None
    return None


def _fit_coordinate(coordinates: Sequence[sympy.Expr], sizes: SizeFit) -> sympy.Expr:
    """Return a coordinate; only its constant may depend on sizes."""
    parsed = [sympy.sympify(coordinate) for coordinate in coordinates]
    if len(set(parsed)) == 1:
        return parsed[0]
    constants = [int(coordinate.as_coeff_Add()[0]) for coordinate in parsed]
    loops = {coordinate - constant for coordinate, constant in zip(parsed, constants, strict=True)}
    if len(loops) != 1:
        raise UnsupportedError(f"coordinates that differ for different sizes: {parsed}")
    return loops.pop() + sizes.fit(constants)


def evaluator(expression: sympy.Expr | int, symbols: Sequence[Symbol]) -> Callable[..., int]:
    """Return a fast function of the sizes with the value of a fitted expression."""
    elements, divisor = sympy.sympify(expression), 1
    if isinstance(elements, sympy.ceiling):
        numerator, denominator = sympy.fraction(sympy.together(elements.args[0]))
        elements, divisor = sympy.expand(numerator), int(denominator)
    terms = elements.as_coefficients_dict()
    constant, factors = int(terms[sympy.S.One]), [int(terms[symbol]) for symbol in symbols]
    return lambda *sizes: -(-(constant + sum(map(mul, factors, sizes))) // divisor)
