"""A kernel that TORCH_SPYRE_DUMP has written, and the ways to run it on its recorded arrays."""

from dataclasses import dataclass
from math import inf, nan
from pathlib import Path

import numpy as np
import torch

from torch_spyre import _C, knobs
from torch_spyre._C import DataFormats
from torch_spyre._inductor import op_spec
from torch_spyre._inductor.kernel_parameters import KernelParameter
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.kernel_record import (
    KernelRecord,
    LaunchRecord,
    MemoryRecord,
    StageRecord,
)
from torch_spyre._inductor.runtime.recording import file_dtype
from torch_spyre._inductor.runtime.runner import ScratchBuffers, bind_program
from torch_spyre._inductor.verification.comparison import Divergence, check
from torch_spyre._inductor.verification.interpreter import Interpreter
from torch_spyre._inductor.verification.kernel import memories_of
from torch_spyre._inductor.verification.value_formats import codes_of, decode, value_format
from torch_spyre.backend.kernels import compile_kernel, function_named
from torch_spyre.cards import load_card
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import InputError
from torch_spyre.ktir.interpreter import interpret
from torch_spyre.ktir.module import Module, load

KTIR, OPSPECS = "ktir.mlir", "opspec.txt"

# The content of each recorded memory, as bytes.
Contents = list[torch.Tensor]


@dataclass(frozen=True)
class DumpedKernel:
    """The folder of a kernel, with its records."""

    folder: Path
    kernel: KernelRecord
    launch: LaunchRecord

    @staticmethod
    def load(folder: Path) -> "DumpedKernel":
        """Read the records; raise InputError if the launch was not recorded."""
        kernel = KernelRecord.load(folder)
        try:
            launch = LaunchRecord.load(folder)
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                problem = "the kernel was compiled and never launched"
                raise InputError(str(folder), problem) from error
            raise
        if launch.left_out:
            raise InputError(
                str(folder),
                f"the arrays of the launch were not recorded: {launch.left_out}. Dump the kernel "
                f"again with another value, or run `spyre ktir run --random {folder / KTIR}`",
            )
        return DumpedKernel(folder, kernel, launch)

    # Files

    def read(self, file: str, memory: MemoryRecord) -> np.ndarray:
        """Return the elements in a file, as codes where NumPy lacks their format."""
        path = self.folder / file
        try:
            array: np.ndarray = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(str(path), f"cannot be read: {error}") from error
        dtype = file_dtype(memory.format)
        if array.dtype != dtype or array.nbytes != memory.bytes:
            raise InputError(
                str(path),
                f"it has {array.nbytes} bytes of {array.dtype}, not {memory.bytes} of {dtype}",
            )
        return array

    def module(self) -> Module:
        return load(self.folder / KTIR)

    def inputs(self) -> Contents:
        """Return the content of each memory before the launch."""
        return [_bytes_of(self.read(memory.input, memory)) for memory in self.launch.memories]

    def outputs(self) -> Contents:
        """Return the content of each memory after the launch."""
        contents = self.inputs()
        for position, memory in enumerate(self.launch.memories):
            if memory.output is not None:
                contents[position] = _bytes_of(self.read(memory.output, memory))
        return contents

    def stages(self) -> list[list[OpSpec]]:
        """Return the OpSpecs of each stage."""
        # Their repr is Python source, as in generated wrappers, on the names of their module.
        names = {**vars(op_spec), "inf": inf, "nan": nan}
        lines = (self.folder / OPSPECS).read_text().splitlines()
        specs = iter([eval(line, names) for line in lines])
        return [[next(specs) for _ in stage.ops] for stage in self.kernel.stages]

    # Runs

    def check_configuration(self) -> None:
        """Raise InputError unless this process computes as the one that dumped the kernel."""
        place, kernel = str(self.folder), self.kernel
        if knobs.emulator.fp16 != kernel.fp16:
            raise InputError(place, f"recorded with SPYRE_EMU_FP16={kernel.fp16}; set the same")
        if load_card().digest != kernel.card_digest:
            raise InputError(place, f"compiled for another card ({kernel.card}); set SPYRE_CARD")

    def run_on_card(self, *, optimises: bool = True) -> Contents:
        """Compile the KTIR and run it on the card; return the content of each memory.

        `optimises` is that of `compile_function`.
        """
        self.check_configuration()
        memories = [_to_card(content) for content in self.inputs()]
        # No program accesses an argument that is not recorded.
        tensors = [torch.empty(0, dtype=torch.int8, device=DEVICE_NAME)] * self.kernel.arguments
        for argument in self.launch.arguments:
            tensors[argument.index] = memories[argument.memory]
        scratch, module = ScratchBuffers(), self.module()
        stages = [_load_stage(stage, module, scratch, optimises) for stage in self.kernel.stages]
        _C.Bundle(self.kernel.kernel, stages, scratch.sizes, self.kernel.arguments).run(*tensors)
        return [_C._device_bytes(memory) for memory in memories]

    def interpret(self) -> Contents:
        """Interpret the KTIR; return the content of each memory. Raise KtirError if unsupported."""
        self.check_configuration()
        contents, module = self.inputs(), self.module()
        memory_of = {argument.index: argument.memory for argument in self.launch.arguments}
        scratch: dict[str, np.ndarray] = {}
        largest: dict[str, int] = {}
        for stage in self.kernel.stages:
            for array in stage.arrays:
                largest[array.parameter] = max(largest.get(array.parameter, 0), array.bytes)
        for stage in self.kernel.stages:
            arrays = []
            for array in stage.arrays:
                if array.argument is None:
                    zeros = np.zeros(largest[array.parameter], np.uint8)
                    arrays.append(scratch.setdefault(array.parameter, zeros)[: array.bytes])
                else:
                    arrays.append(contents[memory_of[array.argument]].numpy()[: array.bytes])
            interpret(function_named(module, stage.function), arrays)
        return contents

    def divergence(self, contents: Contents) -> tuple[str, Divergence] | None:
        """Return the first argument whose content is outside of the bounds of the OpSpecs."""
        before, stages = self.inputs(), self.stages()
        by_argument = [torch.empty(0, dtype=torch.uint8)] * self.kernel.arguments
        for argument in self.launch.arguments:
            by_argument[argument.index] = before[argument.memory]
        memories = memories_of(stages, by_argument)
        Interpreter(memories).run(stages)
        for argument in self.launch.arguments:
            memory = memories[f"arg{argument.index}"]
            divergence = check(memory, contents[argument.memory]).divergence
            if divergence is not None:
                return argument.name, divergence
        return None


def decode_file(codes: np.ndarray, format: str) -> np.ndarray:
    """Return the values of elements in a file of a dump, from the name of their data format."""
    value_type = value_format(DataFormats.__members__[format])
    return decode(codes_of(_bytes_of(codes), value_type), value_type).numpy().reshape(codes.shape)


def _bytes_of(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _to_card(content: torch.Tensor) -> torch.Tensor:
    """Return device memory with this content."""
    tensor = torch.empty(content.numel(), dtype=torch.int8, device=DEVICE_NAME)
    _C._set_device_bytes(tensor, content)
    return tensor


def _load_stage(
    stage: StageRecord, module: Module, scratch: ScratchBuffers, optimises: bool
) -> _C.BundleStage:
    # By position: names of values change when a kernel is printed.
    names = [argument.name for argument in function_named(module, stage.function).arguments]
    if len(names) != len(stage.arrays):
        raise InputError(
            stage.function,
            f"it has {len(names)} arguments, and {len(stage.arrays)} arrays were recorded for it",
        )
    program = compile_kernel(module, stage.function, {}, frozenset(names), optimises=optimises)
    parameters = [
        KernelParameter(array.parameter, array.bytes, array.argument) for array in stage.arrays
    ]
    _, loaded = bind_program(program, parameters, stage.ops, scratch)
    return loaded
