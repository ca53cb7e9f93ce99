"""Random modules built through the API print and parse to the same module."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ktir_texts import assert_same
from xdsl.dialects import scf
from xdsl.dialects.arith import AddiOp, ConstantOp, MulfOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    f16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineExpr, AffineMap

from torch_spyre import ktir
from torch_spyre.ktir.affine import box_set
from torch_spyre.ktir.dialects import ktdp


class Builder:
    """Adds random ops, drawn by Hypothesis, to a block."""

    def __init__(self, draw, block, depth=0):
        self.draw = draw
        self.block = block
        self.depth = depth
        self.indices = list(block.args)
        self.tensors = []

    def add(self, operation, name=None):
        self.block.add_op(operation)
        if name is not None and operation.results:
            operation.results[0].name_hint = name
        return operation.results[0] if operation.results else None

    def pick(self, values):
        return values[self.draw(st.integers(0, len(values) - 1))]

    def index(self):
        return self.pick(self.indices)

    def name(self):
        return self.draw(st.sampled_from(["a", "b", "a_1", "x", None]))

    def constant(self):
        value = IntegerAttr(self.draw(st.integers(-9, 99)), IndexType())
        self.indices.append(self.add(ConstantOp(value), self.name()))

    def sum(self):
        self.indices.append(self.add(AddiOp(self.index(), self.index()), self.name()))

    def core(self):
        operation = ktdp.GetComputeTileIdOp(self.draw(st.integers(1, 3)))
        self.block.add_op(operation)
        self.indices += operation.results

    def load(self):
        rank = self.draw(st.integers(0, 3))
        sizes = [self.draw(st.integers(1, 9)) for _ in range(rank)]
        dynamic = [self.draw(st.booleans()) for _ in sizes]
        view_sizes = [
            self.index() if is_dynamic else size
            for size, is_dynamic in zip(sizes, dynamic, strict=True)
        ]
        strides = [self.index() if self.draw(st.booleans()) else 1 for _ in sizes]
        shape = [
            -(2**63) if is_dynamic else size
            for size, is_dynamic in zip(sizes, dynamic, strict=True)
        ]
        space = ktdp.MemorySpaceAttr(self.draw(st.sampled_from(ktdp.Visibility)))
        view = self.add(
            ktdp.ConstructMemoryViewOp(
                self.index(), view_sizes, strides, MemRefType(f16, shape), space
            ),
            self.name(),
        )
        tile = self.tile(view, sizes)
        self.tensors.append(self.add(ktdp.LoadOp(tile, TensorType(f16, sizes)), self.name()))

    def tile(self, view, sizes):
        if sizes and self.draw(st.booleans()):
            return self.indirect_tile(view, sizes)
        operands = [self.index() for _ in range(3)]
        return self.add(
            ktdp.ConstructAccessTileOp(
                view,
                operands,
                box_set(sizes),
                ktdp.AccessTileType(sizes),
                base_map=AffineMap(3, 0, tuple(self.expression(3) for _ in sizes)),
            ),
            self.name(),
        )

    def indirect_tile(self, view, sizes):
        rank = len(sizes)
        ids = self.add(
            ktdp.ConstructMemoryViewOp(
                self.index(), [8], [1], MemRefType(self.draw(st.sampled_from([i32, i64])), [8])
            )
        )
        subscripts = [
            ktdp.Subscript((self.expression(2 + rank),), ids if self.draw(st.booleans()) else None)
            for _ in sizes
        ]
        return self.add(
            ktdp.ConstructIndirectAccessTileOp(
                view,
                subscripts,
                [self.index(), self.index()],
                box_set(sizes),
                ktdp.AccessTileType(sizes),
                variable_names=[f"v{dim}" for dim in range(rank)],
            )
        )

    def expression(self, dims):
        expression = AffineExpr.dimension(self.draw(st.integers(0, dims - 1)))
        for _ in range(self.draw(st.integers(0, 3))):
            other = AffineExpr.dimension(self.draw(st.integers(0, dims - 1)))
            factor = self.draw(st.integers(1, 5))
            expression = self.draw(
                st.sampled_from(
                    [
                        expression + other,
                        expression - other * factor,
                        expression * factor,
                        expression // factor,
                        expression % factor,
                        expression.ceil_div(factor),
                        expression + factor,
                    ]
                )
            )
        return expression

    def multiply(self):
        if self.tensors:
            tensor = self.pick(self.tensors)
            self.tensors.append(self.add(MulfOp(tensor, tensor), self.name()))

    def loop(self):
        if self.depth == 2:
            return
        inner = Block(arg_types=[IndexType()])
        builder = Builder(self.draw, inner, self.depth + 1)
        builder.indices = [*self.indices, *inner.args]
        builder.tensors = list(self.tensors)
        builder.fill()
        inner.add_op(scf.YieldOp())
        self.add(scf.ForOp(self.index(), self.index(), self.index(), [], Region(inner)))

    def fill(self):
        steps = (
            self.constant, self.sum, self.core, self.load, self.load, self.multiply, self.loop,
        )  # fmt: skip
        for _ in range(self.draw(st.integers(0, 6))):
            self.pick(steps)()


@st.composite
def modules(draw):
    functions = []
    for position in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 3))
        function = FuncOp(f"f{position}", ([IndexType()] * count, []))
        if draw(st.booleans()):
            grid = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
            function.attributes["grid"] = ArrayAttr([IntegerAttr(size, i64) for size in grid])
        Builder(draw, function.body.block).fill()
        function.body.block.add_op(ReturnOp())
        functions.append(function)
    return ktir.Module(ModuleOp(functions))


@pytest.mark.filterwarnings("ignore::torch_spyre.ktir.KtirWarning")
@settings(max_examples=150, deadline=None)
@given(modules())
def test_a_random_module_verifies_and_round_trips(module):
    text = str(module)
    reparsed = ktir.load(text)
    assert_same(module, reparsed)
    assert str(reparsed) == text
