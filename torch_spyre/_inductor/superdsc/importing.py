"""From a kernel's directory back to the ops that it executes."""

from collections.abc import Collection, Sequence
from pathlib import Path

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc.bundle import BUNDLE_FILE, SDSC_FILES
from torch_spyre._inductor.superdsc.bundle_text import Execution, executions
from torch_spyre._inductor.superdsc.fields import Field, load, read_text
from torch_spyre._inductor.superdsc.pool import check_arguments, with_pool_names
from torch_spyre._inductor.superdsc.programs import programs_of, with_scratchpad_names
from torch_spyre._inductor.superdsc.reading import import_sdsc
from torch_spyre._inductor.superdsc.segments import with_argument_addresses
from torch_spyre.errors import BundleError


def import_bundle(directory: str | Path, known_ops: Collection[str] | None = None) -> list[OpSpec]:
    """The ops that a bundle executes, in order, loops unrolled.

    Raises `BundleError`, which names file, key and problem, for a bundle that is damaged or that
    contradicts itself. `known_ops`, if given, are the names of ops to accept.
    """
    folder = Path(directory)
    text = read_text(folder / BUNDLE_FILE)
    runs = executions(text, BUNDLE_FILE)
    _check_all_are_executed(folder, text)
    files: dict[str, Field] = {}
    specs = []
    for run in runs:
        if run.file not in files:
            files[run.file] = load(folder / run.file)
        specs.append(import_sdsc(files[run.file].value, run.file, run.symbols, known_ops))
    specs = _with_argument_addresses(specs, runs)
    check_arguments(specs, BUNDLE_FILE)
    return with_pool_names(with_scratchpad_names(specs), BUNDLE_FILE)


def import_programs(directory: str | Path) -> list[list[OpSpec]]:
    """The same, cut into programs that run one after the other.

    Refused is also what reads from the scratchpad that no op of its program left there.
    """
    programs = programs_of(import_bundle(directory))
    for program in programs:
        left: set[str | None] = set()
        for spec in program:
            for arg in spec.inputs:
                if arg.in_scratchpad and arg.name not in left:
                    raise BundleError(
                        BUNDLE_FILE,
                        "",
                        f"{spec.op} reads {arg.name} from the scratchpad, and no op before it left "
                        "that there",
                    )
            if spec.output.in_scratchpad:
                left.add(spec.output.name)
    return programs


def _check_all_are_executed(folder: Path, text: str) -> None:
    """A line that is lost would leave out an op, and give something else without a word."""
    for file in sorted(each.name for each in folder.glob(SDSC_FILES)):
        if f'"{file}"' not in text:
            raise BundleError(file, "", f"is not executed by {BUNDLE_FILE}")


def _with_argument_addresses(specs: Sequence[OpSpec], runs: Sequence[Execution]) -> list[OpSpec]:
    """Arguments that the bundle binds get the addresses they have where addresses are fixed."""
    roots = [address.arg_index for run in runs for address in run.symbols.values()]
    if all(root is None for root in roots):
        return list(specs)
    for spec, run in zip(specs, runs, strict=True):
        bound = {address.arg_index for address in run.symbols.values()}
        fixed = [
            a.arg_index for a in spec.args if "hbm" in a.allocation if a.arg_index not in bound
        ]
        if fixed:
            raise BundleError(
                run.file, "", f"arguments {fixed} have fixed addresses, and others have symbols"
            )
    try:
        return [spec for spec in with_argument_addresses(specs) if isinstance(spec, OpSpec)]
    except InvalidOpSpecError as error:
        raise BundleError(BUNDLE_FILE, "", str(error)) from error
