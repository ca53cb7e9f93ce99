"""Emits the sort of rows of which each core has a block.

Every core sorts its block. Then blocks are the elements of a bitonic network: two cores exchange
their blocks, and one keeps the first half of the elements, the other one the second half. A group
of blocks is sorted by pairs at half its size, then at a quarter, and so on. Every second group is
in reverse order, so that the next larger group begins with its own pairs at half its size.
"""

from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from torch_spyre._inductor.multi_loop.sort.emission import SortEmitter
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups
from torch_spyre._inductor.to_ktir.emitter import shape_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre._inductor.to_ktir.types import tensor_type
from torch_spyre._inductor.work_division import Digit
from torch_spyre.ktir.dialects.ktdp.collectives import InterTileGatherOp
from torch_spyre.ktir.dialects.ktdp.inter_tile import InterTileProduceOp, YieldPartialOp
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType

Pair = tuple[SSAValue, SSAValue]


class CrossCoreSort(SortEmitter):
    """Emits the sort of one tile of blocks of rows."""

    def emit(self) -> None:
        """Emit the instructions from the load of the block to its store."""
        block = self._emit_block()
        bits = self._bits_of_block()
        for group in range(1, len(bits) + 1):
            for distance in reversed(range(group)):
                is_last = self._is_last_half(bits, distance, group)
                block = self._exchanged(block, distance, is_last)
        self._store_all(*block)

    def _emit_block(self) -> Pair:
        (column,), (symbol,) = self._roles["column"], self._roles["sorted"]
        tile: Frame = self.frame
        part = {
            name: {**getattr(tile, name), symbol: getattr(tile, name)[column]}
            for name in ("origins", "extents", "valid")
        }
        keys, indices = self._load(replace(tile, **part))
        return self._sorted(keys, indices, shape_of(keys)[-1])

    def _bits_of_block(self) -> list[SSAValue]:
        """Emit the bits of the number of this core's block, the lowest first."""
        (column,) = self._roles["column"]
        indices, blocks = self._emitter.indices, self.kernel.space.splits[column]
        size = self.kernel.plan.per_core[column]
        block = indices.value(indices.divided(self.frame.origins[column], size))
        return [indices.digit(block, 1 << bit, 2, blocks) for bit in range(blocks.bit_length() - 1)]

    def _is_last_half(self, bits: list[SSAValue], distance: int, group: int) -> SSAValue:
        """Emit 1 if this core keeps the last half of the elements of a pair, else 0.

        It is the core with the higher block; in every second group, that with the lower one.
        """
        if group == len(bits):
            return bits[distance]
        return self._emitter.add(arith.XOrIOp(bits[distance], bits[group]))

    def _exchanged(self, block: Pair, distance: int, is_last: SSAValue) -> Pair:
        """Emit the exchange with the core whose block is at 2 to the `distance`."""
        (column,) = self._roles["column"]
        digit, cores = self.kernel.mapping.digit_of[column], self.kernel.space.cores
        groups = CoreGroups(Digit(column, digit.stride << distance, 2), cores)
        future_type = TileFutureType([value.type for value in block], groups.groups)
        produced = Block([YieldPartialOp(*block)], arg_types=[IndexType()])
        future = self._emitter.add(
            InterTileProduceOp(groups.members, future_type, Region(produced))
        )
        *rows, size = shape_of(block[0])
        types = [tensor_type(value.type.element_type, (*rows, 2 * size)) for value in block]
        gather = InterTileGatherOp(
            future, groups.members, types, dimensions={"gather_dimensions": [len(rows)]}
        )
        self._emitter.add(gather)
        keys, indices = gather.results
        indices_of = self._emitter.indices
        first = indices_of.value(indices_of.times(Index(0, is_last, 1), size))
        return self._sorted(keys, indices, size, runs=size, first=first)
