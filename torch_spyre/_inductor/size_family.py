"""Plans for ranges of sizes: compiled once, and adapted to each size.

A call whose sizes are new, but whose structure is not, is likely to come with more sizes: a cache
that grows, a batch of another length. Its op or graph is compiled for ranges of those sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.bundle import Tensor
from torch_spyre._inductor.call_lowering import CompiledCall, Integer, Output, View, layout_of
from torch_spyre._inductor.dynamic_sizes import DynamicSpecs, SizeRange, size_symbol
from torch_spyre._inductor.eager_op import EagerPlan
from torch_spyre._inductor.passes.work_division import divided
from torch_spyre._inductor.runtime.dynamic_kernel import DynamicKernel
from torch_spyre._inductor.size_fitting import SizeFit, evaluator, fit_specs, sample_sizes
from torch_spyre._inductor.tensor_forms import (
    Sizes,
    TensorForm,
    dense_form,
    number_form,
    view_form,
)
from torch_spyre.cards import load_card
from torch_spyre.errors import UnsupportedError

# Smaller sizes are few, and each is compiled for itself.
MIN_DYNAMIC_SIZE = 9
_MAX_SYMBOLS = 3


def range_of(size: int) -> SizeRange:
    """Return the range of sizes that share programs with this one: up to the next power of two.

    Programs plan tiles and divide work for the largest size of a range. In a program for all sizes,
    small ones would use few cores.
    """
    maximum = 1 << (size - 1).bit_length()
    return SizeRange(maximum // 2 + 1, maximum)


@dataclass(frozen=True)
class CallSizes:
    """Which integers of a call's tensors vary, and how the others follow from them."""

    # The tensors of one call.
    example: Sequence[Tensor]
    forms: Sequence[TensorForm]
    # For each dynamic size, its positions among the integers of the tensors: see `_integers`.
    positions: Sequence[Sequence[int]]

    def of(self, tensors: Sequence[Tensor]) -> Sizes:
        """Return the dynamic sizes of a call."""
        integers = _integers(tensors)
        return tuple(integers[positions[0]] for positions in self.positions)

    def at(self, dynamic: Sizes) -> list[Tensor]:
        """Return the tensors of the call with these dynamic sizes."""
        integers = _integers(self.example)
        for positions, size in zip(self.positions, dynamic, strict=True):
            for position in positions:
                integers[position] = size
        tensors, start = [], 0
        for form, tensor in zip(self.forms, self.example, strict=True):
            rank = len(tensor.size)
            tensors.append(form.at(tuple(integers[start : start + rank]), dynamic))
            start += 2 * rank
        return tensors


def _integers(tensors: Sequence[Tensor]) -> list[int]:
    """Return the sizes and strides of each tensor, one tensor after the other."""
    return [integer for tensor in tensors for integer in (*tensor.size, *tensor.stride)]


# Compiles a call for tensors with other sizes; raises UnsupportedError if that is not possible.
Compile = Callable[[Sequence[Tensor]], CompiledCall]


class SizeFamily:
    """The plans of one call for a range of each of its dynamic sizes."""

    def __init__(self, compile: Compile, sizes: CallSizes, ranges: Sequence[SizeRange]) -> None:
        self._sizes, self._ranges = sizes, ranges
        self._symbols = [size_symbol(number) for number in range(len(ranges))]
        samples = sample_sizes(ranges)
        calls = [compile(sizes.at(sample)) for sample in samples]
        _check_equal_structure(calls)
        self._call = calls[0]
        fit = SizeFit(self._symbols, samples)
        shapes = {
            name: [_host_shape(compiled.bundle.tensors[name]) for compiled in calls]
            for name in self._call.bundle.tensors
        }
        stages = [
            self._dynamic(fit_specs(specs, fit, shapes))
            for specs in zip(*(compiled.bundle.stages for compiled in calls), strict=True)
        ]
        self._allocated = [
            _DynamicTensor(tensors, fit)
            for tensors in zip(*(compiled.allocated for compiled in calls), strict=True)
        ]
        self._outputs = [
            _dynamic_output(outputs, fit)
            for outputs in zip(*(compiled.outputs for compiled in calls), strict=True)
        ]
        has_work = any(specs.specs for specs in stages)
        self._kernel = DynamicKernel(self._call.bundle.name, stages) if has_work else None

    def _dynamic(self, specs: Sequence[Any]) -> DynamicSpecs:
        """Return the specs of a program, divided over cores as for the largest sizes."""
        ranges = dict(zip(self._symbols, self._ranges, strict=True))
        dynamic = DynamicSpecs(specs, ranges)
        splits = [spec.splits for spec in divided(dynamic.largest, load_card(), dynamic.loops)]
        return DynamicSpecs(
            [
                replace(
                    spec,
                    iteration_space={
                        symbol: (size, of_spec[symbol])
                        for symbol, (size, _) in spec.iteration_space.items()
                    },
                )
                for spec, of_spec in zip(specs, splits, strict=True)
            ],
            ranges,
        )

    def plan(self, tensors: Sequence[Tensor], *, may_alias: bool) -> EagerPlan | None:
        """Return the plan for tensors with this metadata; None if the family has none.

        `may_alias` states whether two tensors of the call have one storage.
        """
        sizes = self._sizes.of(tensors)
        if not all(size in limits for size, limits in zip(sizes, self._ranges, strict=True)):
            return None
        if self._sizes.at(sizes) != list(tensors):
            return None
        run = None if self._kernel is None else self._kernel.at(sizes, may_alias=may_alias).run
        call = replace(self._call, outputs=[output(sizes) for output in self._outputs])
        return EagerPlan.with_kernel(call, run, [tensor.at(sizes) for tensor in self._allocated])


class _DynamicTensor:
    """A result whose sizes are functions of the dynamic sizes."""

    def __init__(self, tensors: Sequence[Tensor], fit: SizeFit) -> None:
        self._first = tensors[0]
        self._size = _fitted([tensor.size for tensor in tensors], fit)
        self._stride = _fitted([tensor.stride for tensor in tensors], fit)
        layouts = [layout_of(tensor) for tensor in tensors]
        if len({layout.device_dtype for layout in layouts}) > 1:
            raise UnsupportedError("results of different formats for different sizes")
        device_sizes = fit.fit_device_sizes(
            [_host_shape(tensor) for tensor in tensors],
            [layout.device_size for layout in layouts],
            layouts[0].stride_map,
        )
        self._device_size = [evaluator(size, fit.symbols) for size in device_sizes]
        self._stride_map = _fitted([layout.stride_map for layout in layouts], fit)

    def at(self, sizes: Sizes) -> Tensor:
        layout = SpyreTensorLayout(
            [size(*sizes) for size in self._device_size],
            [step(*sizes) for step in self._stride_map],
            layout_of(self._first).device_dtype,
        )
        return replace(
            self._first,
            size=tuple(size(*sizes) for size in self._size),
            stride=tuple(step(*sizes) for step in self._stride),
            layout=layout,
        )


def _host_shape(tensor: Tensor) -> tuple[Sizes, Sizes]:
    return tensor.size, tensor.stride


def _fitted(rows: Sequence[Sequence[int]], fit: SizeFit) -> list[Callable[..., int]]:
    if len({len(row) for row in rows}) > 1:
        raise UnsupportedError("tensors of different rank for different sizes")
    return [evaluator(fit.fit(values), fit.symbols) for values in zip(*rows, strict=True)]


def _dynamic_output(outputs: Sequence[Output], fit: SizeFit) -> Callable[[Sizes], Output]:
    first = outputs[0]
    if isinstance(first, Integer):
        numbers = [output for output in outputs if isinstance(output, Integer)]
        (value,) = _fitted([(number.value,) for number in numbers], fit)
        return lambda sizes: Integer(value(*sizes))
    if not isinstance(first, View):
        if any(output != first for output in outputs):
            raise UnsupportedError("results that differ for different sizes")
        return lambda sizes: first
    views = [output for output in outputs if isinstance(output, View)]
    if len(views) < len(outputs) or any(view.buffer != first.buffer for view in views):
        raise UnsupportedError("results that are views for some sizes only")
    size = _fitted([view.size for view in views], fit)
    stride = _fitted([view.stride for view in views], fit)
    (offset,) = _fitted([(view.offset,) for view in views], fit)
    return lambda sizes: View(
        first.buffer,
        tuple(length(*sizes) for length in size),
        tuple(step(*sizes) for step in stride),
        offset(*sizes),
    )


def _check_equal_structure(calls: Sequence[CompiledCall]) -> None:
    structures = {
        (
            tuple(call.inputs),
            tuple(call.bundle.arguments),
            len(call.bundle.stages),
            len(call.outputs),
            tuple((tensor.name, tensor.dtype) for tensor in call.allocated),
            tuple(call.bundle.tensors),
            str(call.structure),
        )
        for call in calls
    }
    if len(structures) > 1:
        raise UnsupportedError("a call that is compiled differently for different sizes")


def num_differences(earlier: Sequence[Tensor], tensors: Sequence[Tensor]) -> int:
    """Return how many sizes and strides of two calls differ."""
    return sum(old != new for old, new in zip(_integers(earlier), _integers(tensors), strict=True))


def varying_sizes(tensors: Sequence[Tensor], earlier: Sequence[Tensor]) -> CallSizes | None:
    """Return the sizes that differ from an earlier call; None if too many or too small ones do.

    Equal differences are one size. A stride is a size too if it follows from no other one: that of
    a view, whose storage has other sizes.
    """
    positions: dict[tuple[int, int], list[int]] = {}
    start = 0
    for first, second in zip(earlier, tensors, strict=True):
        for dim, sizes in enumerate(zip(first.size, second.size, strict=True)):
            if sizes[0] != sizes[1]:
                positions.setdefault(sizes, []).append(start + dim)
        start += 2 * len(second.size)
    forms: list[TensorForm] = []
    start = 0
    for first, second in zip(earlier, tensors, strict=True):
        rank = len(second.size)
        form: TensorForm | None = number_form(second) or dense_form(first, second)
        if form is None:
            form = view_form(first, second, *_sizes_of(positions))
        if form is None:
            strides = enumerate(zip(first.stride, second.stride, strict=True), start + rank)
            dim, pair = min(strides, key=lambda entry: (entry[1][0] == entry[1][1], entry[1][1]))
            if pair[0] == pair[1]:
                return None
            positions.setdefault(pair, []).append(dim)
            form = view_form(first, second, *_sizes_of(positions))
        if form is None:
            return None
        forms.append(form)
        start += 2 * rank
    if not 0 < len(positions) <= _MAX_SYMBOLS or min(map(min, positions)) < MIN_DYNAMIC_SIZE:
        return None
    return CallSizes(tensors, forms, list(positions.values()))


def _sizes_of(positions: Mapping[tuple[int, int], object]) -> tuple[Sizes, Sizes]:
    return tuple(old for old, _ in positions), tuple(new for _, new in positions)


def make_family(compile: Compile, sizes: CallSizes) -> SizeFamily:
    """Return the family for ranges of the sizes of a call.

    Raise UnsupportedError if it cannot be compiled for ranges.
    """
    ranges = [range_of(size) for size in sizes.of(sizes.example)]
    try:
        return SizeFamily(compile, sizes, ranges)
    except UnsupportedError:
        # At the ends of a range sticks may be whole, or begin there, and programs of another kind.
        # Those for other sizes serve whole sticks inside of the range as well.
        ranges = [SizeRange(limits.minimum + 1, limits.maximum - 1) for limits in ranges]
        return SizeFamily(compile, sizes, ranges)
