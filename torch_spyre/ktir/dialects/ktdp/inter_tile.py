"""Communication between cores: produce, and the delivery ops consume and reduce.

`inter_tile_produce` computes a partial on each core and returns a future, which exactly one
delivery op uses. The def-use edge is the only ordering. Sets are over flat core ids.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineSetAttr, IndexType, TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.dialects.ktdp.delivery import (
    DeliveryOperation,
    ReductionOperation,
    verify_core_set,
)
from torch_spyre.ktir.dialects.ktdp.format import (
    parse_tensor_types,
    parse_type_of,
    print_attributes,
    print_elided,
)
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType


class _YieldOperation(IRDLOperation):
    """[ssa {`,` ssa} `:` tensor {`,` tensor}]"""

    values = var_operand_def(TensorType)

    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=[values])


@irdl_op_definition
class YieldPartialOp(_YieldOperation):
    """Terminates the region of a produce op with this core's partial."""

    name = "ktdp.yield_partial"

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(InterTileProduceOp), Pure()))


@irdl_op_definition
class YieldReducedOp(_YieldOperation):
    """Terminates a combiner with the reduction of two partials."""

    name = "ktdp.yield_reduced"

    traits = traits_def(IsTerminator(), Pure())

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), ReductionOperation):
            raise VerifyException("must be in the combiner of a reduce or reduce_scatter")


@irdl_op_definition
class InterTileProduceOp(IRDLOperation):
    """Runs its region once per core, with the core's group id; returns a future of the result."""

    name = "ktdp.inter_tile_produce"

    producer_tiles_per_group = prop_def(AffineSetAttr)
    future = result_def(TileFutureType)
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, producers: AffineSet, future_type: Attribute, body: Region) -> None:
        super().__init__(
            result_types=[future_type],
            properties={"producer_tiles_per_group": AffineSetAttr(producers)},
            regions=[body],
        )

    def verify_(self) -> None:
        verify_core_set(self.producer_tiles_per_group.data, "producer_tiles_per_group", 1)
        block = self.body.block
        if [argument.type for argument in block.args] != [IndexType()]:
            raise VerifyException("the region must have one argument, the group id of type index")
        terminator = block.last_op
        if not isinstance(terminator, YieldPartialOp):
            raise VerifyException("the region must end with ktdp.yield_partial")
        yielded = tuple(value.type for value in terminator.values)
        if yielded != self.future.type.partials:
            raise VerifyException(
                f"the region yields {_format_types(yielded)}, but the partials of the future are "
                f"{_format_types(self.future.type.partials)}"
            )
        if self.future.uses.get_length() > 1:
            raise VerifyException("a future must have one use, a delivery op")
        for use in self.future.uses:
            if not isinstance(use.operation, DeliveryOperation):
                raise VerifyException(
                    f"a future must be used by a delivery op, not {use.operation.name}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> "InterTileProduceOp":
        parser.parse_keyword("producer_tiles_per_group")
        parser.parse_punctuation("=")
        position = parser.pos
        producers = parser.parse_attribute()
        if not isinstance(producers, AffineSetAttr):
            parser.raise_error(f"{cls.name}: expected an affine set", position)
        attributes = parser.parse_optional_attr_dict()
        partials = None
        if parser.parse_optional_punctuation(":") is not None:
            position = parser.pos
            partials = parse_tensor_types(parser)
        parser.parse_punctuation("->")
        future_type = parse_type_of(parser, TileFutureType)
        if partials is not None and tuple(partials) != future_type.partials:
            parser.raise_error(
                f"{cls.name}: partials {_format_types(partials)} differ from the future's", position
            )
        operation = cls(producers.data, future_type, parser.parse_region())
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" producer_tiles_per_group = ")
        printer.print_attribute(self.producer_tiles_per_group)
        print_attributes(printer, {}, self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.future.type.partials, printer.print_attribute)
        printer.print_string(" -> ")
        print_elided(printer, self.future.type)
        printer.print_string(" ")
        printer.print_region(self.body)


def _format_types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class InterTileConsumeOp(DeliveryOperation):
    """Delivers to each consumer the partial of one producer, unchanged."""

    name = "ktdp.inter_tile_consume"

    traits = traits_def(Pure())

    def verify_(self) -> None:
        self.verify_delivery()
        self.verify_results_equal_partials()


@irdl_op_definition
class InterTileReduceOp(ReductionOperation):
    """Reduces the partials of a group with the combiner, and delivers the result to every consumer.

    The combiner is pure, associative and commutative by contract.
    """

    name = "ktdp.inter_tile_reduce"

    traits = traits_def(RecursiveMemoryEffect())

    def verify_(self) -> None:
        self.verify_delivery()
        self.verify_combiner()
        self.verify_results_hold_partials()
