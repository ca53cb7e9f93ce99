"""`spyreop.gather` and `spyreop.scatter`: elements of a tensor that a tensor of indices selects."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


def _element(kind: Attribute) -> Attribute:
    """Return the element type of a tensor."""
    assert isinstance(kind, TensorType)
    element: Attribute = kind.element_type
    return element


class _Indexed(IRDLOperation):
    """Elements [`first`, `first` + the table's extent) of dim `dim`, whose whole size is `size`.

    Points whose index is among these move an element; other indices below `size` are ignored. An
    index outside of [0, `size`) is an error at the position of the point, from `origin` on.
    """

    def verify_tensors(
        self, index: Attribute, tile: Attribute, table: Attribute, dim: int, num_origins: int
    ) -> None:
        """Verify the types of an index tensor, the tensor of its shape, and the table."""
        types = (index, tile, table)
        if not all(isinstance(kind, TensorType) for kind in types):
            raise VerifyException("operands must be ranked tensors")
        shapes = [kind.get_shape() for kind in types if isinstance(kind, TensorType)]
        rank = len(shapes[0])
        if shapes[0] != shapes[1]:
            raise VerifyException(f"indices of shape {shapes[0]} for elements of {shapes[1]}")
        if not 0 <= dim < rank or len(shapes[2]) != rank:
            raise VerifyException(f"dim {dim} of a table of rank {len(shapes[2])}, not {rank}")
        if any(shapes[0][d] != shapes[2][d] for d in range(rank) if d != dim):
            raise VerifyException(f"a table of shape {shapes[2]} for indices of {shapes[0]}")
        if num_origins not in (0, rank):
            raise VerifyException(f"{num_origins} origins of a tensor of rank {rank}")
        element = _element(index)
        if not isinstance(element, IntegerType) or element.width.data == 1:
            raise VerifyException(f"indices of type {element}")


@irdl_op_definition
class GatherOp(_Indexed):
    """Returns `into` with the elements of a table at the indices."""

    name = "spyreop.gather"

    table = operand_def(TensorType)
    index = operand_def(TensorType)
    into = operand_def(TensorType)
    first = operand_def(IndexType)
    origin = var_operand_def(IndexType)
    dim = prop_def(IntegerAttr)
    size = prop_def(IntegerAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$table `[` $index `]` `into` $into `from` $first `at` `(` $origin `)` attr-dict "
        "`:` type($table) `,` type($index) `,` type($into) `->` type($result)"
    )

    def __init__(
        self,
        table: SSAValue,
        index: SSAValue,
        into: SSAValue,
        first: SSAValue,
        origin: Sequence[SSAValue],
        dim: int,
        size: int,
    ) -> None:
        super().__init__(
            operands=[table, index, into, first, origin],
            result_types=[into.type],
            properties={"dim": IntegerAttr(dim, i64), "size": IntegerAttr(size, i64)},
        )

    def verify_(self) -> None:
        dim = self.dim.value.data
        self.verify_tensors(self.index.type, self.into.type, self.table.type, dim, len(self.origin))
        if self.into.type != self.result.type:
            raise VerifyException("the result must have the type of `into`")
        elements = (_element(self.table.type), _element(self.into.type))
        if elements[0] != elements[1]:
            raise VerifyException(f"a gather of {elements[0]} into {elements[1]}")


@irdl_op_definition
class ScatterOp(_Indexed):
    """Returns `into` with values stored at the indices, or combined with the elements there.

    Values are combined one after the other, in row-major order, by the vector instruction that
    `combine` names. Of several values that are stored at one element, the last remains.
    """

    name = "spyreop.scatter"

    values = operand_def(TensorType)
    index = operand_def(TensorType)
    into = operand_def(TensorType)
    first = operand_def(IndexType)
    origin = var_operand_def(IndexType)
    dim = prop_def(IntegerAttr)
    size = prop_def(IntegerAttr)
    combine = opt_prop_def(StringAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$values `into` $into `[` $index `]` `from` $first `at` `(` $origin `)` attr-dict "
        "`:` type($values) `,` type($into) `,` type($index) `->` type($result)"
    )

    def __init__(
        self,
        values: SSAValue,
        index: SSAValue,
        into: SSAValue,
        first: SSAValue,
        origin: Sequence[SSAValue],
        dim: int,
        size: int,
        combine: str | None = None,
    ) -> None:
        super().__init__(
            operands=[values, index, into, first, origin],
            result_types=[into.type],
            properties={
                "dim": IntegerAttr(dim, i64),
                "size": IntegerAttr(size, i64),
                "combine": None if combine is None else StringAttr(combine),
            },
        )

    def verify_(self) -> None:
        dim = self.dim.value.data
        self.verify_tensors(
            self.index.type, self.values.type, self.into.type, dim, len(self.origin)
        )
        if self.into.type != self.result.type:
            raise VerifyException("the result must have the type of `into`")
        elements = (_element(self.values.type), _element(self.into.type))
        if self.combine is None and elements[0] != elements[1]:
            raise VerifyException(f"a scatter of {elements[0]} into {elements[1]}")
