"""Reads a bundle back as the `OpSpec`s that it executes."""

from collections.abc import Collection, Sequence
from pathlib import Path

from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.superdsc.bundle_parser import Execution, parse_bundle
from torch_spyre._inductor.superdsc.bundle_writer import BUNDLE_FILE, SDSC_FILES
from torch_spyre._inductor.superdsc.json_fields import Field, load_json, read_text
from torch_spyre._inductor.superdsc.pool_names import check_argument_addresses, with_pool_names
from torch_spyre._inductor.superdsc.programs import can_be_one_kernel, split_into_programs
from torch_spyre._inductor.superdsc.scratchpad_allocation import (
    spilled,
    with_scratchpad_names,
    with_whole_sticks,
)
from torch_spyre._inductor.superdsc.sdsc_reader import import_sdsc
from torch_spyre._inductor.superdsc.segments import with_argument_addresses
from torch_spyre.errors import BundleError, InvalidOpSpecError


def import_bundle(directory: str | Path, known_ops: Collection[str] | None = None) -> list[OpSpec]:
    """Return the ops that a bundle executes, in order, with loops unrolled.

    Raises `BundleError`, with the file, the key and the problem, for a bundle that is damaged or
    inconsistent. If `known_ops` is given, other ops are rejected.
    """
    folder = Path(directory)
    text = read_text(folder / BUNDLE_FILE)
    executions = parse_bundle(text, BUNDLE_FILE)
    _check_all_files_are_executed(folder, text)
    files: dict[str, Field] = {}
    specs = []
    for execution in executions:
        file = execution.file
        if file not in files:
            files[file] = load_json(folder / file)
        specs.append(
            import_sdsc(
                files[file].value, file, execution.symbols, known_ops, has_pool=execution.has_pool
            )
        )
    specs = _with_argument_addresses(specs, executions)
    check_argument_addresses(specs, BUNDLE_FILE)
    return with_pool_names(with_scratchpad_names(specs), BUNDLE_FILE)


def import_programs(directory: str | Path) -> list[list[OpSpec]]:
    """Return the ops of `import_bundle`, split into programs that run one after the other.

    Ops that cannot be one program, since they do not agree on the dims of the scratchpad tensors
    between them, become one each, with these tensors in memory. Also raises `BundleError` for an op
    that reads a scratchpad tensor that no earlier op of its program wrote.
    """
    programs: list[list[OpSpec]] = []
    for number, program in enumerate(split_into_programs(import_bundle(directory))):
        _check_scratchpad_reads(program)
        if can_be_one_kernel(program):
            programs.append(with_whole_sticks(program))
        else:
            programs += [[spec] for spec in spilled(program, f"scratchpad{number}")]
    return programs


def _check_scratchpad_reads(program: Sequence[OpSpec]) -> None:
    """Check that each scratchpad tensor that is read was written with the same layout."""
    written: dict[str | None, tuple[object, ...]] = {}
    for spec in program:
        for arg in spec.inputs:
            if not arg.in_scratchpad:
                continue
            if arg.name not in written:
                raise BundleError(
                    BUNDLE_FILE,
                    "",
                    f"{spec.op} reads {arg.name} from the scratchpad, but no earlier op of its "
                    "program wrote it",
                )
            if written[arg.name] != _layout(arg):
                raise BundleError(
                    BUNDLE_FILE,
                    "",
                    f"{spec.op} reads {arg.name} from the scratchpad as {_layout(arg)}, but it was "
                    f"written as {written[arg.name]}",
                )
        if spec.output.in_scratchpad:
            written[spec.output.name] = _layout(spec.output)


def _layout(arg: TensorArg) -> tuple[object, ...]:
    """Return what must agree between accesses to a tensor: format and sizes."""
    return arg.device_dtype.name, *(size for size in arg.device_size if size > 1)


def _check_all_files_are_executed(folder: Path, text: str) -> None:
    """Check that no file is left over: a missing line would silently drop an op."""
    for file in sorted(path.name for path in folder.glob(SDSC_FILES)):
        if f'"{file}"' not in text:
            raise BundleError(file, "", f"is not executed by {BUNDLE_FILE}")


def _with_argument_addresses(
    specs: Sequence[OpSpec], executions: Sequence[Execution]
) -> list[OpSpec]:
    """Return the specs with absolute addresses for the arguments that the bundle binds."""
    roots = [
        address.arg_index for execution in executions for address in execution.symbols.values()
    ]
    if all(root is None for root in roots):
        return list(specs)
    for spec, execution in zip(specs, executions, strict=True):
        bound = {address.arg_index for address in execution.symbols.values()}
        fixed = [
            arg.arg_index
            for arg in spec.args
            if "hbm" in arg.allocation and arg.arg_index not in bound
        ]
        if fixed:
            raise BundleError(
                execution.file,
                "",
                f"arguments {fixed} have fixed addresses, but others have symbolic ones",
            )
    try:
        return [spec for spec in with_argument_addresses(specs) if isinstance(spec, OpSpec)]
    except InvalidOpSpecError as error:
        raise BundleError(BUNDLE_FILE, "", str(error)) from error
