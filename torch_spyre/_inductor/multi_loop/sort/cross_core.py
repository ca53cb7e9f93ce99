"""Emits the sort of rows of which each core has a block.

Every core sorts its block. To sort the rows, blocks are then the elements of a bitonic network: two
cores exchange their blocks, and one keeps the first half of the elements, the other one the second
half. A group of blocks is sorted by pairs at half its size, then at a quarter, and so on. Every
second group is in reverse order, so that the next larger group begins with its own pairs at half
its size.

To select the first elements of rows, the first core of a row receives those of all blocks.
"""

from collections.abc import Sequence
from dataclasses import replace

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from torch_spyre._inductor.multi_loop.sort.emission import SortEmitter
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups
from torch_spyre._inductor.to_ktir.emitter import element_of, shape_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre._inductor.to_ktir.types import tensor_type
from torch_spyre._inductor.work_division import Digit
from torch_spyre.ktir.dialects.arith import CmpiOp
from torch_spyre.ktir.dialects.ktdp.collectives import InterTileGatherOp
from torch_spyre.ktir.dialects.ktdp.inter_tile import InterTileProduceOp, YieldPartialOp
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType

Pair = Sequence[SSAValue]


class CrossCoreSort(SortEmitter):
    """Emits the sort of one tile of blocks of rows."""

    def emit(self) -> None:
        """Emit the instructions from the load of the block to the store of the result."""
        keys, indices = self._load_block(), self._positions(self._block_frame(self._block_size))
        kept = min(self._kept, self._block_size)
        block: Pair = self._sorted(keys, indices, kept)
        if self._kept < self._length:
            self._select(self._gathered(block, self._digit, to_first=True))
            return
        bits = self._bits_of_number()
        for group in range(1, len(bits) + 1):
            for distance in reversed(range(group)):
                is_last = self._is_last_half(bits, distance, group)
                block = self._exchanged(block, distance, is_last)
        self._store_block(block)

    def _select(self, gathered: Pair) -> None:
        """Emit the selection from the first elements of all blocks, on the row's first core."""

        def store_first() -> None:
            keys, indices = gathered
            first = self._sorted(keys, indices, self._kept, runs=self._kept)
            self._store_all(first, self.frame)

        self._emitter.branch(self._emitter.indices.is_zero(self._number), store_first)

    # --- Blocks, of which the last ones can have fewer elements, or none

    def _load_block(self) -> SSAValue:
        """Emit the load of the keys of this core's block, followed by the last of the order."""
        emitter, size, remainder = self._emitter, self._block_size, self._remainder

        def load(length: int) -> SSAValue:
            return self._load_rows(self._spec.inputs[0], self._block_frame(length))

        def partial() -> Pair:
            last = self._last_keys(size)
            if not remainder:
                return [last]
            return [emitter.insert(load(remainder), last, (0,) * len(shape_of(last)))]

        if self._num_full == self._num_blocks:
            return load(size)

        def not_full() -> Pair:
            if not self._has_empty or not remainder:
                return partial()
            return emitter.choose(self._is_remainder(), partial, lambda: [self._last_keys(size)])

        (keys,) = emitter.choose(self._is_full(), lambda: [load(size)], not_full)
        return keys

    def _store_block(self, block: Pair) -> None:
        emitter, remainder = self._emitter, self._remainder

        def store_remainder() -> None:
            start = (0,) * len(shape_of(block[0]))
            shape = (*shape_of(block[0])[:-1], remainder)
            part = [emitter.slice(value, start, shape) for value in block]
            self._store_all(part, self._block_frame(remainder))

        whole = self._block_frame(self._block_size)
        if self._num_full == self._num_blocks:
            self._store_all(block, whole)
            return
        if self._num_full:
            emitter.branch(self._is_full(), lambda: self._store_all(block, whole))
        if remainder:
            emitter.branch(self._is_remainder(), store_remainder)

    def _block_frame(self, length: int) -> Frame:
        """Return the frame of the first elements of this core's block, in rows and columns."""
        origin, frame = self.frame.origins[self._split], self.frame
        symbols = {self._split, *self._roles["sorted"]}
        extents = dict.fromkeys(symbols, length)
        return replace(
            frame,
            origins={**frame.origins, **dict.fromkeys(symbols, origin)},
            extents={**frame.extents, **extents},
            valid={**frame.valid, **extents},
        )

    def _is_full(self) -> SSAValue:
        full = self._emitter.indices.constant(self._num_full)
        return self._emitter.add(CmpiOp("ult", self._number, full))

    def _is_remainder(self) -> SSAValue:
        full = self._emitter.indices.constant(self._num_full)
        return self._emitter.add(CmpiOp("eq", self._number, full))

    # --- Exchanges

    def _bits_of_number(self) -> list[SSAValue]:
        """Emit the bits of the number of this core's block, the lowest first."""
        digit, blocks = self._emitter.indices.digit, self._num_blocks
        return [digit(self._number, 1 << bit, 2, blocks) for bit in range(blocks.bit_length() - 1)]

    def _is_last_half(self, bits: Sequence[SSAValue], distance: int, group: int) -> SSAValue:
        """Emit 1 if this core keeps the last half of the elements of a pair, else 0.

        It is the core with the higher block; in every second group, that with the lower one.
        """
        if group == len(bits):
            return bits[distance]
        return self._emitter.add(arith.XOrIOp(bits[distance], bits[group]))

    def _exchanged(self, block: Pair, distance: int, is_last: SSAValue) -> Pair:
        """Emit the exchange with the core whose block is at 2 to the `distance`."""
        pair = Digit(self._split, self._digit.stride << distance, 2)
        keys, indices = self._gathered(block, pair)
        size, index = self._block_size, self._emitter.indices
        first = index.value(index.times(Index(0, is_last, 1), size))
        return self._sorted(keys, indices, size, runs=size, first=first)

    def _gathered(self, block: Pair, digit: Digit, *, to_first: bool = False) -> Pair:
        """Emit the concatenation of the blocks of all cores whose ids differ in a digit.

        All of these cores receive it, or only the first one.
        """
        groups = CoreGroups(digit, self.kernel.space.cores)
        future_type = TileFutureType([value.type for value in block], groups.groups)
        produced = Block([YieldPartialOp(*block)], arg_types=[IndexType()])
        future = self._emitter.add(
            InterTileProduceOp(groups.members, future_type, Region(produced))
        )
        *rows, size = shape_of(block[0])
        shape = (*rows, digit.split * size)
        types = [tensor_type(element_of(value), shape) for value in block]
        dimensions = {"gather_dimensions": [len(rows)]}
        consumers = groups.first_members if to_first else groups.members
        gather = InterTileGatherOp(future, consumers, types, dimensions=dimensions)
        self._emitter.add(gather)
        return gather.results

    # --- Sizes

    @property
    def _length(self) -> int:
        (symbol,) = self._roles["sorted"]
        return self.kernel.space.sizes[symbol]

    @property
    def _split(self) -> Symbol:
        """The symbol that is divided over cores."""
        (column,), (symbol,) = self._roles["column"], self._roles["sorted"]
        return column if self._kept == self._length else symbol

    @property
    def _digit(self) -> Digit:
        return self.kernel.mapping.digit_of[self._split]

    @property
    def _num_blocks(self) -> int:
        return self.kernel.space.splits[self._split]

    @property
    def _block_size(self) -> int:
        return self.kernel.plan.per_core[self._split]

    @property
    def _num_full(self) -> int:
        return self._length // self._block_size

    @property
    def _remainder(self) -> int:
        return self._length % self._block_size

    @property
    def _has_empty(self) -> bool:
        return -(-self._length // self._block_size) < self._num_blocks

    @property
    def _number(self) -> SSAValue:
        """The number of this core's block in the row."""
        origin = self.frame.origins[self._split]
        index = self._emitter.indices
        return index.value(index.divided(origin, self._block_size))
