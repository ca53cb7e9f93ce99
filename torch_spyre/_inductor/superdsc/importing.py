"""From a kernel's directory back to the ops that it executes."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc.bundle import BUNDLE_FILE
from torch_spyre._inductor.superdsc.bundle_text import Execution, executions
from torch_spyre._inductor.superdsc.fields import Field, load, read_text
from torch_spyre._inductor.superdsc.reading import import_sdsc
from torch_spyre._inductor.superdsc.segments import assign_argument_addresses
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import BundleError


def import_bundle(directory: str | Path, known_ops: Collection[str] | None = None) -> list[OpSpec]:
    """The ops that a bundle executes, in order, loops unrolled.

    Raises `BundleError`, which names file, key and problem, for a bundle that is damaged or that
    contradicts itself. `known_ops`, if given, are the names of ops to accept.
    """
    folder = Path(directory)
    runs = executions(read_text(folder / BUNDLE_FILE), BUNDLE_FILE)
    files: dict[str, Field] = {}
    specs = []
    for run in runs:
        if run.file not in files:
            files[run.file] = load(folder / run.file)
        specs.append(import_sdsc(files[run.file].value, run.file, run.symbols, known_ops))
    return _with_scratchpad_names(_with_argument_addresses(specs, runs))


def _with_argument_addresses(specs: Sequence[OpSpec], runs: Sequence[Execution]) -> list[OpSpec]:
    """Arguments that the bundle binds get the addresses they have where addresses are fixed."""
    bound = [{address.arg_index for address in run.symbols.values()} - {None} for run in runs]
    if not any(bound):
        return list(specs)
    sizes: dict[int, int] = {}
    for spec in specs:
        for arg in spec.args:
            if "hbm" in arg.allocation:
                sizes[arg.arg_index] = max(sizes.get(arg.arg_index, 0), _end(arg))
    has_pool = any("pool" in arg.allocation for spec in specs for arg in spec.args)
    listed = [sizes.get(index, 0) for index in range(max(sizes, default=-1) + 1)]
    try:
        bases = assign_argument_addresses(listed, has_pool)
    except InvalidOpSpecError as error:
        raise BundleError(BUNDLE_FILE, "", str(error)) from error
    return [
        replace(
            spec,
            args=[
                replace(arg, allocation={"hbm": bases[arg.arg_index] + arg.allocation["hbm"]})
                if arg.arg_index in indices
                else arg
                for arg in spec.args
            ],
        )
        for spec, indices in zip(specs, bound, strict=True)
    ]


def _end(arg: TensorArg) -> int:
    size = BYTES_IN_STICK // arg.device_size[-1]
    for each in arg.device_size:
        size *= each
    return arg.allocation["hbm"] + size


def _with_scratchpad_names(specs: Sequence[OpSpec]) -> list[OpSpec]:
    """What one op leaves in the scratchpad and a later one reads has one name in both."""
    latest: dict[int, str] = {}
    named = []
    for position, spec in enumerate(specs):
        args = []
        for arg in spec.args:
            if arg.in_scratchpad:
                place = arg.allocation["lx"]
                if not arg.is_input:
                    latest[place] = arg.name or f"lx_{place}_{position}"
                arg = replace(arg, name=arg.name or latest.get(place, f"lx_{place}"))
            args.append(arg)
        named.append(replace(spec, args=args))
    return named
