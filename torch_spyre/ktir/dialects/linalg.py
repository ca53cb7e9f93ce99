"""The `linalg` dialect: xDSL's, with the named ops that it lacks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, FloatAttr
from xdsl.dialects.linalg.abstract_ops import ElementwiseOperation, NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import MatmulOp as XdslMatmulOp
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_op_definition, prop_def

from torch_spyre.ktir.dialects.arith import ExtFOp, ExtSIOp


class _NamedOpWithBody(NamedOperation, ABC):
    """A named op whose hidden region is built from one function on scalars."""

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        result_types: Sequence[Attribute] | None = None,
    ) -> None:
        types = [output.type for output in outputs] if result_types is None else result_types
        super().__init__(
            inputs, outputs, [types], hidden_region=self.get_hidden_region(inputs, outputs)
        )

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        block = Block(arg_types=cls.body_arg_types((*inputs, *outputs)))
        with ImplicitBuilder(block):
            YieldOp(cls.scalar(*block.args))
        return Region(block)

    @staticmethod
    @abstractmethod
    def scalar(*arguments: SSAValue) -> Operation:
        """Build the op on one element of each operand, outputs last."""


class _Elementwise(_NamedOpWithBody, ElementwiseOperation, ABC):
    """An elementwise named op."""


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, AnyFloat)


def _one_like(value: SSAValue) -> Operation:
    assert isinstance(value.type, AnyFloat)
    return arith.ConstantOp(FloatAttr(1.0, value.type))


@irdl_op_definition
class DivOp(_Elementwise):
    name = "linalg.div"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        divide = arith.DivfOp if _is_float(arguments[0]) else arith.DivSIOp
        return divide(arguments[0], arguments[1])


@irdl_op_definition
class NegfOp(_Elementwise):
    name = "linalg.negf"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return arith.NegfOp(arguments[0])


@irdl_op_definition
class AbsOp(_Elementwise):
    name = "linalg.abs"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.AbsFOp(arguments[0])


@irdl_op_definition
class CeilOp(_Elementwise):
    name = "linalg.ceil"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.CeilOp(arguments[0])


@irdl_op_definition
class FloorOp(_Elementwise):
    name = "linalg.floor"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.FloorOp(arguments[0])


@irdl_op_definition
class ReciprocalOp(_Elementwise):
    name = "linalg.reciprocal"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return arith.DivfOp(_one_like(arguments[0]), arguments[0])


@irdl_op_definition
class RsqrtOp(_Elementwise):
    name = "linalg.rsqrt"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.RsqrtOp(arguments[0])


@irdl_op_definition
class SquareOp(_Elementwise):
    name = "linalg.square"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return arith.MulfOp(arguments[0], arguments[0])


@irdl_op_definition
class TanhOp(_Elementwise):
    name = "linalg.tanh"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.TanhOp(arguments[0])


@irdl_op_definition
class ErfOp(_Elementwise):
    name = "linalg.erf"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.ErfOp(arguments[0])


@irdl_op_definition
class PowfOp(_Elementwise):
    name = "linalg.powf"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return math.PowFOp(arguments[0], arguments[1])


def _extended(value: SSAValue, target: Attribute) -> SSAValue:
    """Return a factor extended to the type of the accumulator."""
    if value.type == target:
        return value
    cast = ExtFOp if isinstance(target, AnyFloat) else ExtSIOp
    return SSAValue.get(cast(value, target))


def _multiply_and_add(left: SSAValue, right: SSAValue, accumulator: SSAValue) -> Operation:
    target = accumulator.type
    multiply, add = (
        (arith.MulfOp, arith.AddfOp)
        if isinstance(target, AnyFloat)
        else (arith.MuliOp, arith.AddiOp)
    )
    return add(multiply(_extended(left, target), _extended(right, target)), accumulator)


@irdl_op_definition
class MatmulOp(_NamedOpWithBody):
    """`outs + A * B`. As in MLIR, unlike xDSL, the accumulator may be wider than the factors."""

    name = "linalg.matmul"

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True

    indexing_maps = prop_def(
        ArrayAttr[AffineMapAttr],
        default_value=ArrayAttr(
            [
                AffineMapAttr(AffineMap.from_callable(lambda m, _, k: (m, k))),
                AffineMapAttr(AffineMap.from_callable(lambda _, n, k: (k, n))),
                AffineMapAttr(AffineMap.from_callable(lambda m, n, _: (m, n))),
            ]
        ),
    )

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return _multiply_and_add(*arguments)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return tuple(attribute.data for attribute in self.indexing_maps)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        return self.indexing_maps

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([*[IteratorTypeAttr.parallel()] * 2, IteratorTypeAttr.reduction()])


@irdl_op_definition
class BatchMatmulOp(_NamedOpWithBody):
    """`outs + A * B` for each matrix of a batch."""

    name = "linalg.batch_matmul"

    @staticmethod
    def scalar(*arguments: SSAValue) -> Operation:
        return _multiply_and_add(*arguments)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return (
            AffineMap.from_callable(lambda b, m, n, k: (b, m, k)),
            AffineMap.from_callable(lambda b, m, n, k: (b, k, n)),
            AffineMap.from_callable(lambda b, m, n, k: (b, m, n)),
        )

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([*[IteratorTypeAttr.parallel()] * 3, IteratorTypeAttr.reduction()])


Linalg = Dialect(
    "linalg",
    [
        *(kind for kind in linalg.Linalg.operations if kind is not XdslMatmulOp),
        MatmulOp,
        DivOp,
        NegfOp,
        AbsOp,
        CeilOp,
        FloorOp,
        ReciprocalOp,
        RsqrtOp,
        SquareOp,
        TanhOp,
        ErfOp,
        PowfOp,
        BatchMatmulOp,
    ],
    list(linalg.Linalg.attributes),
)
