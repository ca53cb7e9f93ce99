"""Allocates the scratchpad tensors of a kernel.

OpSpecs identify these tensors by name. The back end keeps most of them in registers, or one tile
at a time, so no address of the compiled program belongs to a whole one. In a bundle each has an
address, which is the same on every core, and at which the core's slice of it lies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from sympy import Symbol

from torch_spyre._inductor.op_spec import AnySpec, OpSpec, Spec, TensorArg, flat
from torch_spyre._inductor.superdsc.coordinates import bounds, direct_symbols
from torch_spyre._inductor.superdsc.live_ranges import live_ranges, with_starts, without_overlaps
from torch_spyre._inductor.superdsc.programs import common_sticks, split_into_programs
from torch_spyre._inductor.superdsc.public_form import round_up
from torch_spyre._inductor.superdsc.segments import map_args, map_ops
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre.constants import BYTES_IN_STICK


def with_scratchpad_addresses(specs: Sequence[Spec], capacity: int) -> list[Spec]:
    """Return the specs with scratchpad addresses at which no two live tensors overlap.

    If the tensors of a program do not fit in `capacity` bytes, they are spilled to the pool.
    """
    allocated: list[Spec] = []
    for number, program in enumerate(split_into_programs(specs)):
        ops = [spec for spec in flat(program) if isinstance(spec, OpSpec)]
        sticks = common_sticks(ops)

        def num_bytes(spec: OpSpec, arg: TensorArg, sticks: Mapping[Symbol, int] = sticks) -> int:
            return slice_bytes(spec, arg, sticks)

        ranges = without_overlaps(live_ranges([[spec] for spec in program], "lx", num_bytes))
        if max((live.end for live in ranges.values()), default=0) <= capacity:
            allocated += with_starts(program, "lx", ranges)
        else:
            allocated += spilled(program, f"spill{number}")
    return allocated


def slice_bytes(spec: OpSpec, arg: TensorArg, sticks: Mapping[Symbol, int]) -> int:
    """Return the bytes of the largest slice of a scratchpad tensor that a core holds.

    `sticks` are the common sticks of the op's program: split symbols are padded to these.
    """
    slice_sizes = {
        symbol: -(-round_up(size, sticks.get(symbol, 1) if split > 1 else 1) // split)
        for (symbol, size), split in zip(spec.sizes.items(), spec.splits.values(), strict=True)
    }
    sticks_per_slice = 1
    for extent, coordinate in zip(arg.device_size[:-1], arg.device_coordinates[:-1], strict=True):
        split = prod(spec.splits[symbol] for symbol in direct_symbols(coordinate))
        if split > 1:
            # A gap between the slice and the extent belongs to the slice.
            extent = max(int(bounds(coordinate, slice_sizes, (0, 0))[1]) + 1, -(-extent // split))
        sticks_per_slice *= extent
    return sticks_per_slice * BYTES_IN_STICK


def spilled(specs: Sequence[AnySpec], prefix: str) -> list[AnySpec]:
    """Return the specs of a program with its scratchpad tensors in the pool.

    Each op is a program then. The names of the tensors get the prefix, since a tensor may be both
    in the scratchpad and in memory.
    """

    def in_pool(arg: TensorArg) -> TensorArg:
        if not arg.in_scratchpad:
            return arg
        return replace(arg, allocation={"pool": 0}, name=f"{prefix}_{arg.name}")

    return [
        map_ops(map_args(spec, in_pool), lambda op: with_whole_sticks([op])[0]) for spec in specs
    ]


def with_whole_sticks(program: Sequence[OpSpec]) -> list[OpSpec]:
    """Return the ops of a program without splits that give slices that end within a stick.

    Cores share no stick of memory.
    """
    space = IterationSpace.from_specs(program)
    splits = {
        symbol: split if split == 1 or space.num_units(symbol) % split == 0 else 1
        for symbol, split in space.splits.items()
    }
    return [
        replace(
            spec,
            iteration_space={
                symbol: (size, splits[symbol]) for symbol, (size, _) in spec.iteration_space.items()
            },
        )
        for spec in program
    ]


@dataclass(frozen=True)
class _Slice:
    """A tensor whose slices are at bytes `start` to `end` of the scratchpads."""

    start: int
    end: int
    name: str


def with_scratchpad_names(specs: Sequence[OpSpec]) -> list[OpSpec]:
    """Return the specs with one name for each scratchpad tensor in all ops that access it.

    Tensors without names are linked by address: an op reads the tensor that was last written there.
    """
    contents: list[_Slice] = []
    named = []
    for position, spec in enumerate(specs):
        args = []
        for arg in spec.args:
            if arg.in_scratchpad:
                start = arg.allocation["lx"]
                if arg.is_input:
                    names = [old.name for old in contents if old.start == start]
                    arg = replace(arg, name=arg.name or (names[0] if names else f"lx_{start}"))
                else:
                    arg = replace(arg, name=arg.name or f"lx_{start}_{position}")
                    end = start + slice_bytes(spec, arg, common_sticks([spec]))
                    contents = [old for old in contents if old.end <= start or end <= old.start]
                    contents.append(_Slice(start, end, str(arg.name)))
            args.append(arg)
        named.append(replace(spec, args=args))
    return named
