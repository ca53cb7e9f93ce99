"""SuperDSC bundles: mutated JSON files and `bundle.mlir`, read, lowered to KTIR, and run."""

import functools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fuzz.kind import Content, Kind, Violation, shorter_lists
from fuzz.kinds.card import Canaries, rejection_of_launch, synchronize
from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import import_programs, unroll_loop_specs
from torch_spyre._inductor.superdsc.segments import num_bytes

CORES = 32
KERNEL = "damaged"


@functools.cache
def undamaged(name: str, is_symbolic: bool) -> dict[str, Any]:
    """Return the files of a kernel's bundle by name: parsed JSON files, and texts."""
    from bundle_mutations import KERNELS, files_of

    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, Any] = files_of(KERNELS[name], Path(folder), is_symbolic)
        return files


@functools.cache
def argument_bytes(name: str) -> list[int]:
    """Return the size of each argument of an undamaged kernel."""
    from bundle_mutations import KERNELS

    sizes: dict[int, int] = {}
    for spec in unroll_loop_specs(KERNELS[name]):
        assert isinstance(spec, OpSpec)
        for arg in spec.args:
            if "hbm" in arg.allocation:
                sizes[arg.arg_index] = max(sizes.get(arg.arg_index, 0), num_bytes(arg))
    return [sizes[index] for index in sorted(sizes)]


class BundleKind(Kind):
    """Bundles with one to three mutations: rejected, or run without changing other memory."""

    name = "bundles"

    def generate(self, chance: random.Random) -> Content:
        from bundle_mutations import KERNELS, mutated

        name = chance.choice(sorted(KERNELS))
        files = mutated(chance, undamaged(name, chance.random() < 0.5))
        texts = {
            file: content.split("\n") if isinstance(content, str) else content
            for file, content in files.items()
        }
        return {"kernel": name, "files": texts}

    def run(self, content: Content) -> None:
        from bundle_mutations import write

        files = {
            file: "\n".join(value) if file.endswith(".mlir") else value
            for file, value in content["files"].items()
        }
        with tempfile.TemporaryDirectory() as folder:
            write(files, Path(folder))
            programs = import_programs(folder)
        for program in programs:
            validate(program, cores=CORES)
        with knobs.override(TORCH_SPYRE_PROGRAM_CACHE="", SPYRE_EMU_WATCHDOG="2"):
            run_programs(content["kernel"], programs)

    def smaller(self, content: Content) -> Iterator[Content]:
        """Yield bundles with fewer mutations and fewer lines."""
        files = content["files"]
        for is_symbolic in (False, True):
            for file, intact in undamaged(content["kernel"], is_symbolic).items():
                value = intact.split("\n") if isinstance(intact, str) else intact
                if files.get(file) != value:
                    yield {**content, "files": {**files, file: value}}
        for file, value in files.items():
            if file.endswith(".mlir"):
                for lines in shorter_lists(value):
                    yield {**content, "files": {**files, file: lines}}


def run_programs(kernel: str, programs: list[list[OpSpec]]) -> None:
    """Run the programs of a bundle on the arguments of the undamaged kernel, between canaries."""
    canaries = Canaries()
    arguments = []
    for size in argument_bytes(kernel):
        # Small values are valid indices too.
        values = torch.arange(size // 4, dtype=torch.int32) % 30
        arguments.append(values.to("spyre"))
        canaries.add()
    written = {spec.output.arg_index for program in programs for spec in program}
    runner = Runner(KERNEL, programs)
    try:
        runner.run(*arguments)
        synchronize()
    except TypeError as error:
        if KERNEL not in str(error):  # it takes more or fewer arguments
            raise
    except Exception as error:
        raise rejection_of_launch(error, KERNEL) from error
    finally:
        canaries.check()
    for index, argument in enumerate(arguments):
        values = torch.arange(argument.numel(), dtype=torch.int32) % 30
        if index not in written and not torch.equal(argument.cpu(), values):
            raise Violation("an argument that no op writes was changed", f"argument {index}")
