"""Random small graphs: eager, compiled and the CPU in float64 agree.

Each value has an error bound. An op propagates the bounds of its inputs, multiplied by the factor
by which it can amplify an error, and adds one rounding.
"""

from dataclasses import dataclass

import pytest
import torch
from example_counts import MANY
from hypothesis import given
from hypothesis import strategies as st

from torch_spyre.testing.tolerances import ULP_OF_ONE

pytestmark = pytest.mark.usefixtures("verified_kernels")
HALF = ULP_OF_ONE[torch.float16]
SIZES = [1, 2, 3, 5, 7, 64, 65, 70, 130]
# Bounds of magnitude and error beyond which a comparison would be meaningless.
LARGEST, WORST = 64.0, 0.25


@dataclass(frozen=True)
class Value:
    """A value of the graph: its name, its shape, and bounds of its magnitude and error."""

    name: str
    shape: tuple[int, ...]
    largest: float
    error: float


def can_broadcast(one, other):
    return all(a == b or 1 in (a, b) for a, b in zip(one[::-1], other[::-1], strict=False))


class Graph:
    """Generate lines of Python, one op at a time."""

    def __init__(self, draw, pointwise_only):
        self.draw, self.pointwise_only = draw, pointwise_only
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.inputs: list[tuple[int, ...]] = []

    def add_input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(shape)
        # Inputs are rounded before anyone computes.
        self.values.append(Value(name, shape, 2.0, 0.0))

    def add(self, text, shape, largest, error, rounding=1.0):
        """One more value, unless it could be too large or too wrong to be compared."""
        error = error + rounding * HALF * (largest + error)
        if largest <= LARGEST and error <= WORST:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
            self.values.append(Value(name, tuple(shape), largest, error))

    def grow(self):
        value = self.draw(st.sampled_from(self.values))
        kinds = ["one", "two", "number", "where"]
        if not self.pointwise_only:
            kinds += ["fold", "view", "softmax", "product", "cat", "rows", "cast"]
        getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(value)

    def _one(self, v):
        text, largest, growth = self.draw(
            st.sampled_from(
                [
                    ("{}.abs()", v.largest, 1),
                    ("-{}", v.largest, 1),
                    ("{}.relu()", v.largest, 1),
                    ("{}.tanh()", 1, 1),
                    ("{}.sigmoid()", 1, 0.25),
                    ("{}.sin()", 1, 1),
                    ("{}.clamp(-1.5, 1.25)", 1.5, 1),
                ]
            )
        )
        self.add(text.format(v.name), v.shape, largest, growth * v.error)

    def _number(self, v):
        number = self.draw(st.sampled_from([0.5, -1.25, 2.0, 3.0]))
        if self.draw(st.booleans()):
            self.add(f"{v.name} + {number}", v.shape, v.largest + abs(number), v.error)
        else:
            self.add(
                f"{v.name} * {number}", v.shape, v.largest * abs(number), v.error * abs(number)
            )

    def _partner(self, v):
        """A value that can be broadcast with this one."""
        fitting = [other for other in self.values if can_broadcast(v.shape, other.shape)]
        return self.draw(st.sampled_from(fitting))

    def _two(self, v):
        w = self._partner(v)
        shape = torch.broadcast_shapes(v.shape, w.shape)
        op = self.draw(st.sampled_from(["+", "-", "*", "maximum", "minimum"]))
        if op == "*":
            error = v.largest * w.error + w.largest * v.error + v.error * w.error
            self.add(f"{v.name} * {w.name}", shape, v.largest * w.largest, error)
        elif op in ("+", "-"):
            self.add(f"{v.name} {op} {w.name}", shape, v.largest + w.largest, v.error + w.error)
        else:
            largest, error = max(v.largest, w.largest), max(v.error, w.error)
            self.add(f"torch.{op}({v.name}, {w.name})", shape, largest, error)

    def _where(self, v):
        w = self._partner(v)
        shape = torch.broadcast_shapes(v.shape, w.shape)
        # Only inputs are compared: they are the same for everyone.
        flags = self.draw(st.sampled_from(self.values[: len(self.inputs)]))
        if not can_broadcast(shape, flags.shape):
            return
        shape = torch.broadcast_shapes(shape, flags.shape)
        largest, error = max(v.largest, w.largest), max(v.error, w.error)
        self.add(
            f"torch.where({flags.name} > 0.5, {v.name}, {w.name})",
            shape,
            largest,
            error,
            rounding=0,
        )

    def _reduce(self, v):
        if not v.shape:
            return
        dim = self.draw(st.integers(-len(v.shape), len(v.shape) - 1))
        keep = self.draw(st.booleans())
        shape = list(v.shape)
        if keep:
            shape[dim] = 1
        else:
            del shape[dim]
        op = self.draw(st.sampled_from(["sum", "mean", "amax", "amin"]))
        count = v.shape[dim] if op == "sum" else 1
        text = f"{v.name}.{op}({dim}, keepdim={keep})"
        self.add(text, shape, count * v.largest, count * v.error, rounding=2)

    def _softmax(self, v):
        if not v.shape:
            return
        dim = self.draw(st.integers(-len(v.shape), len(v.shape) - 1))
        # Exponents are wrong by a factor, and so are their sums.
        spread = 2 * v.largest * HALF + 2 * v.error
        self.add(f"{v.name}.softmax({dim})", v.shape, 1, 2.5 * spread, rounding=4)

    def _view(self, v):
        rank = len(v.shape)
        kind = self.draw(st.sampled_from(["permute", "slice", "unsqueeze", "flatten", "expand"]))
        if kind == "permute":
            order = self.draw(st.permutations(range(rank)))
            self._moved(f"{v.name}.permute({list(order)})", [v.shape[dim] for dim in order], v)
        elif kind == "unsqueeze" and rank < 3:
            dim = self.draw(st.integers(0, rank))
            self._moved(f"{v.name}.unsqueeze({dim})", [*v.shape[:dim], 1, *v.shape[dim:]], v)
        elif kind == "flatten" and rank:
            count = torch.Size(v.shape).numel()
            self._moved(f"{v.name}.reshape(-1)", [count], v)
        elif kind == "expand" and rank < 3:
            self._moved(f"{v.name}.expand({[3, *v.shape]})", [3, *v.shape], v)
        elif kind == "slice" and rank:
            dim = self.draw(st.integers(0, rank - 1))
            start = self.draw(st.integers(0, v.shape[dim] - 1))
            step = self.draw(st.integers(1, 3))
            shape = list(v.shape)
            shape[dim] = len(range(start, v.shape[dim], step))
            where = ", ".join([":"] * dim + [f"{start}::{step}"])
            self._moved(f"{v.name}[{where}]", shape, v)

    def _moved(self, text, shape, v):
        self.add(text, shape, v.largest, v.error, rounding=0)

    def _product(self, v):
        if len(v.shape) < 2:
            return
        other = [w for w in self.values if len(w.shape) == 2 and w.shape[0] == v.shape[-1]]
        transposed = [w for w in self.values if len(w.shape) == 2 and w.shape[1] == v.shape[-1]]
        if other:
            w = self.draw(st.sampled_from(other))
            text, columns = f"{v.name} @ {w.name}", w.shape[1]
        elif transposed:
            w = self.draw(st.sampled_from(transposed))
            text, columns = f"{v.name} @ {w.name}.t()", w.shape[0]
        else:
            return
        count = v.shape[-1]
        error = count * (v.largest * w.error + w.largest * v.error + v.error * w.error)
        scale = 1 / count
        shape = [*v.shape[:-1], columns]
        self.add(f"({text}) * {scale}", shape, v.largest * w.largest, scale * error, rounding=3)

    def _cat(self, v):
        if not v.shape:
            return
        dim = self.draw(st.integers(0, len(v.shape) - 1))
        fitting = [
            w
            for w in self.values
            if len(w.shape) == len(v.shape)
            and all(
                a == b for i, (a, b) in enumerate(zip(v.shape, w.shape, strict=True)) if i != dim
            )
        ]
        w = self.draw(st.sampled_from(fitting))
        shape = list(v.shape)
        shape[dim] += w.shape[dim]
        largest, error = max(v.largest, w.largest), max(v.error, w.error)
        self.add(f"torch.cat([{v.name}, {w.name}], {dim})", shape, largest, error, rounding=0)

    def _rows(self, v):
        if not v.shape:
            return
        dim = self.draw(st.integers(0, len(v.shape) - 1))
        rows = self.draw(st.lists(st.integers(0, v.shape[dim] - 1), min_size=1, max_size=4))
        shape = list(v.shape)
        shape[dim] = len(rows)
        index = f"torch.tensor({rows}, device={v.name}.device)"
        self._moved(f"{v.name}.index_select({dim}, {index})", shape, v)

    def _cast(self, v):
        """There and back: in float32 nothing is lost."""
        self._moved(f"({v.name}.to(wide) * 1.0).to({v.name}.dtype)", v.shape, v)

    def function(self):
        outputs = self.values[len(self.inputs) :][-3:]
        names = ", ".join(f"x{number}" for number in range(len(self.inputs)))
        results = ", ".join(value.name for value in outputs)
        lines = [f"def function({names}, wide):", *self.lines, f"return ({results},)"]
        scope = {"torch": torch}
        exec("\n    ".join(lines), scope)
        return scope["function"], outputs, "\n    ".join(lines)


@st.composite
def graphs(draw, pointwise_only=False):
    graph = Graph(draw, pointwise_only)
    rank = draw(st.integers(1, 3))
    shape = tuple(
        draw(st.sampled_from(SIZES if dim == rank - 1 else SIZES[:5])) for dim in range(rank)
    )
    graph.add_input(shape)
    graph.add_input(draw(st.sampled_from([shape, shape[-1:], (*shape[:-1], 1), shape])))
    for _ in range(draw(st.integers(2, 8))):
        graph.grow()
    return graph


def agree(graph, exactly):
    if not graph.lines:
        return
    function, outputs, text = graph.function()
    generator = torch.Generator().manual_seed(len(text))
    inputs = [(4 * torch.rand(shape, generator=generator) - 2).half() for shape in graph.inputs]
    card = [tensor.to("spyre") for tensor in inputs]
    expected = function(*[tensor.cpu().double() for tensor in card], torch.float64)
    eager = function(*card, torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(function)(*card, torch.float32)
    for value, right, one, other in zip(outputs, expected, eager, compiled, strict=True):
        for kind, actual in (("eager", one), ("compiled", other)):
            assert actual.shape == right.shape == value.shape, (kind, text)
            error = (actual.cpu().double() - right).abs().max().item()
            assert error <= value.error, (kind, error, value, text)
        if exactly:
            assert torch.equal(one.cpu(), other.cpu()), (value, text)


@pytest.mark.heavy
@MANY
@given(graphs(pointwise_only=True))
def test_many_pointwise_graphs_are_bitwise_equal(graph):
    agree(graph, exactly=True)
