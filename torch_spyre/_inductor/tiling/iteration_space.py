"""The iteration space that the OpSpecs of a kernel share, and a core's slice of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm, prod

from sympy import Symbol

from torch_spyre._inductor.op_spec import OpSpec, TensorArg, index_names
from torch_spyre._inductor.tiling.access import Access, access_of
from torch_spyre.errors import UnsupportedError


@dataclass(frozen=True)
class IterationSpace:
    """The sizes and splits of all symbols of a kernel, and how its tensors are accessed."""

    sizes: Mapping[Symbol, int]
    splits: Mapping[Symbol, int]
    reduced: frozenset[Symbol]
    accesses: Mapping[TensorArg, Access]
    # Symbols along sticks that also hold elements which the kernel must not change.
    partially_written: frozenset[Symbol] = frozenset()
    # Symbols whose sizes are known at launch; `sizes` has the largest ones.
    dynamic: frozenset[Symbol] = frozenset()

    @classmethod
    def from_specs(
        cls, specs: Sequence[OpSpec], dynamic: frozenset[Symbol] = frozenset()
    ) -> "IterationSpace":
        """Return the space of these specs; raise UnsupportedError if they do not share one."""
        sizes: dict[Symbol, int] = {}
        splits: dict[Symbol, int] = {}
        reduced: set[Symbol] = set()
        accesses: dict[TensorArg, Access] = {}
        partially_written: set[Symbol] = set()
        for spec in specs:
            for symbol, size in spec.sizes.items():
                if sizes.setdefault(symbol, size) != size:
                    raise UnsupportedError(
                        f"ops in one kernel with different sizes of {symbol}: "
                        f"{sizes[symbol]} and {size}"
                    )
                split = spec.splits[symbol]
                if splits.setdefault(symbol, split) != split:
                    raise UnsupportedError(
                        f"ops in one kernel with different splits of {symbol}: "
                        f"{splits[symbol]} and {split}"
                    )
            for arg in spec.args:
                accesses[arg] = access_of(arg)
            if spec.op_info.get("partial"):
                partially_written |= accesses[spec.output].stick_symbols
            if spec.is_reduction:
                reduced |= set(spec.sizes) - accesses[spec.output].symbols
        return cls(
            sizes, splits, frozenset(reduced), accesses, frozenset(partially_written), dynamic
        )

    @property
    def cores(self) -> int:
        return prod(self.splits.values())

    @property
    def cross_core_reduction(self) -> Symbol | None:
        """The reduced symbol that is split over cores, whose partial results are combined."""
        symbols = [s for s in self.sizes if s in self.reduced and self.splits[s] > 1]
        if len(symbols) > 1:
            raise UnsupportedError(
                f"a cross-core reduction over more than one symbol: {symbols[0]} and {symbols[1]}"
            )
        return symbols[0] if symbols else None

    @property
    def memory_accesses(self) -> list[Access]:
        """The accesses of tensors in device memory."""
        return [access for arg, access in self.accesses.items() if not arg.in_scratchpad]

    def padded_symbols(self) -> frozenset[Symbol]:
        """Return the symbols that run along whole sticks of every tensor that has them.

        Kernels compute on the padding of these sticks too. The sticks of all tensors must end at
        the same element. Symbols of index tensors are excluded, as padding is not a valid index.
        """
        indices = {name for arg in self.accesses for name in index_names(arg)}
        along_sticks: set[Symbol] = set()
        excluded = set(self.partially_written)
        for access in self.memory_accesses:
            if access.stick_symbol is not None:
                along_sticks.add(access.stick_symbol)
            excluded |= access.symbols - {access.stick_symbol}
            if access.arg.name in indices:
                excluded |= access.symbols
        return frozenset(
            symbol for symbol in along_sticks - excluded if self._sticks_end_together(symbol)
        )

    def _sticks_end_together(self, symbol: Symbol) -> bool:
        sticks = self._sticks(symbol)
        if symbol in self.dynamic:
            return len(sticks) == 1
        return len({round_up(self.sizes[symbol], stick) for stick in sticks}) == 1

    def _written_along_sticks(self) -> set[Symbol]:
        return {
            symbol
            for access in self.memory_accesses
            if not access.arg.is_input
            for symbol in access.stick_symbols
        }

    def _sticks(self, symbol: Symbol) -> set[int]:
        """Return the elements per stick of the tensors whose sticks run along the symbol."""
        accesses = [access for access in self.memory_accesses if symbol in access.stick_symbols]
        return {access.arg.elements_per_stick for access in accesses}

    def granule(self, symbol: Symbol) -> int:
        """Return the unit of tile sizes with which all tiles begin at the same lane of a stick."""
        granule = 1
        for access in self.memory_accesses:
            stick = access.arg.elements_per_stick
            for box in access.boxes or ():
                factor = dict(box.sum.terms).get(symbol)
                if factor and (box.is_stick or box.is_lane):
                    granule = lcm(granule, stick // gcd(stick, factor))
        return granule

    def num_units(self, symbol: Symbol) -> int:
        """Return the number of elements or sticks of a symbol: a split must divide it."""
        granule = self.granule(symbol)
        size = self.sizes[symbol]
        # Padding may be computed, but not reduced.
        if symbol in self.padded_symbols() - self.reduced:
            return -(-size // granule)
        if symbol in self.dynamic and granule > 1:
            # The last slice may be short. It must not end within a stick that another core writes.
            return 1 if symbol in self._written_along_sticks() else -(-size // granule)
        return size // granule if size % granule == 0 else 1

    def slice_size(self, symbol: Symbol, padded: frozenset[Symbol]) -> int:
        """Return the size of a core's slice; raise UnsupportedError if it splits a stick."""
        size, split = self.sizes[symbol], self.splits[symbol]
        if symbol in padded and not (symbol in self.reduced and split > 1):
            size = round_up(size, self.granule(symbol))
        if size % split:
            raise UnsupportedError(
                f"a split of {symbol} into {split} slices, which does not divide its size {size}"
            )
        size //= split
        if split > 1 and size % self.granule(symbol):
            raise UnsupportedError(
                f"a split of {symbol} into slices of {size} elements, which divides a stick"
            )
        return size


def round_up(size: int, multiple: int) -> int:
    """Return the smallest multiple that is not less than the size."""
    return -(-size // multiple) * multiple
