"""The programs in the folders of TORCH_SPYRE_DUMP: each with the sizes of its arrays.

`save_programs` writes them beside the text of their kernel, `dumped_kernels` finds and reads them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_spyre.backend.kernels import compile_kernel
from torch_spyre.backend.program.program import Program
from torch_spyre.errors import InputError, ProgramError
from torch_spyre.ktir.module import load

INDEX = "programs.json"
KTIR = "ktir.mlir"


@dataclass(frozen=True)
class DumpedProgram:
    """The program of one stage of a kernel, and the bytes of its arrays."""

    name: str
    program: Program
    array_bytes: tuple[int, ...]
    # The ops of the specs that the stage computes.
    ops: tuple[str, ...]


@dataclass(frozen=True)
class DumpedKernel:
    """A kernel's folder: its programs in the order of its stages, and the lines of its KTIR."""

    folder: Path
    programs: tuple[DumpedProgram, ...]
    ktir_lines: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A stage to dump: the function of this name in the KTIR, its arrays and its ops."""

    name: str
    array_bytes: Sequence[int]
    ops: Sequence[str]


def save_programs(folder: Path, stages: Sequence[Stage]) -> None:
    """Compile the stages of a kernel from the KTIR in its folder, and write their programs.

    They are the programs that run, except that their instructions have lines and columns of the
    KTIR.
    """
    module = load(folder / KTIR)
    index = []
    for number, stage in enumerate(stages):
        names = frozenset(argument.name for argument in module.functions[stage.name].arguments)
        file = f"program_{number}.bin"
        compile_kernel(module, stage.name, {}, names).save(folder / file)
        index.append(
            {
                "name": stage.name,
                "file": file,
                "array_bytes": list(stage.array_bytes),
                "ops": list(stage.ops),
            }
        )
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


def dumped_kernels(path: Path) -> list[DumpedKernel]:
    """Read the kernel in a folder, or those in its subfolders; raise InputError without any."""
    if not path.is_dir():
        raise InputError(str(path), "there is no such folder" if not path.exists() else "no folder")
    folders = [path] if (path / INDEX).exists() else sorted(path.iterdir())
    kernels = [_read_kernel(folder) for folder in folders if (folder / INDEX).is_file()]
    if not kernels:
        raise InputError(
            str(path),
            f"no kernel was dumped here: neither the folder nor one in it has a {INDEX}, which "
            "TORCH_SPYRE_DUMP writes",
        )
    return kernels


def _read_kernel(folder: Path) -> DumpedKernel:
    index = folder / INDEX
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise TypeError(f"it holds a {type(entries).__name__}")
        programs = tuple(_read_program(folder, entry) for entry in entries)
    except OSError as error:
        raise InputError(str(index), error.strerror or str(error)) from error
    except KeyError as error:
        raise InputError(str(index), f"a program has no {error}") from error
    except InputError:
        raise
    except ProgramError as error:
        raise InputError(str(folder), str(error)) from error
    except (TypeError, ValueError) as error:
        raise InputError(str(index), f"not a list of programs: {error}") from error
    return DumpedKernel(folder, programs, _lines(folder / KTIR))


def _read_program(folder: Path, entry: Mapping[str, Any]) -> DumpedProgram:
    file = Path(str(entry["file"])).name
    sizes = tuple(int(size) for size in entry["array_bytes"])
    program = Program.load(folder / file)
    arrays = [argument for argument in program.arguments if argument.is_array]
    if len(arrays) != len(sizes):
        raise InputError(str(folder / INDEX), f"{file} has {len(arrays)} arrays, not {len(sizes)}")
    return DumpedProgram(str(entry["name"]), program, sizes, tuple(map(str, entry["ops"])))


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return ()  # Names of values come from it; everything else does not.
