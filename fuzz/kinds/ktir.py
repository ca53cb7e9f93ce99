"""KTIR texts: mutated kernels and generated ones, parsed, verified, compiled, estimated and run."""

import functools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.kind import Content, Kind, Violation, shorter_lists
from fuzz.kinds.card import Canaries, rejection_of_launch
from fuzz.kinds.text_mutations import mutated
from torch_spyre import knobs, ktir
from torch_spyre.backend.lowering import array_sizes
from torch_spyre.cards import load_card
from torch_spyre.tools.ktir_random_arrays import arrays_of, random_arrays, random_scalars

if TYPE_CHECKING:
    from torch_spyre.backend.program.program import Program
    from torch_spyre.ktir import Function, Module

ROOT = Path(__file__).parents[2]
CORPUS = (
    "examples/ktir/*.mlir",
    "tests/backend/execution/kernels/*.mlir",
    "tests/ktir/kernels/*.mlir",
    "tests/inductor/expected/*/ktir.mlir",
)
# A kernel with larger arrays is compiled and not run.
MAX_ARRAY_BYTES = 1 << 24
_INTEGERS = (0, 1, 2, 3, 5, 64, 65, 1000, -1)


@functools.cache
def corpus() -> list[list[str]]:
    """Return the lines of each kernel of the repository."""
    return [
        path.read_text().splitlines() for pattern in CORPUS for path in sorted(ROOT.glob(pattern))
    ]


@functools.cache
def donors() -> list[str]:
    """Return the different lines of all kernels."""
    return sorted({line for lines in corpus() for line in lines})


class KtirKind(Kind):
    """Texts of KTIR modules. Generated kernels are also compared with a plain interpreter."""

    name = "ktir"

    def prepare(self) -> None:
        corpus(), donors()

    def generate(self, chance: random.Random) -> Content:
        from random_kernels import KernelWriter

        is_generated = chance.random() < 0.2
        if is_generated:
            lines = KernelWriter(chance.randint).text().splitlines()
        else:
            lines = chance.choice(corpus())
        is_intact = is_generated and chance.random() < 0.5
        text = lines if is_intact else mutated(lines, donors(), chance)
        return {"compare": is_intact, "seed": chance.randrange(1 << 30), "text": text}

    def run(self, content: Content) -> None:
        with knobs.override(TORCH_SPYRE_PROGRAM_CACHE="", SPYRE_EMU_WATCHDOG="2"):
            module = ktir.load("\n".join(content["text"]) + "\n")
            if content["seed"] % 4 == 0:
                check_printing(module)
            for function in module.functions.values():
                if function.is_kernel:
                    run_function(module, function, content["seed"])
            if content["compare"]:
                compare_with_interpreter(module, "\n".join(content["text"]))

    def smaller(self, content: Content) -> Iterator[Content]:
        for lines in shorter_lists(content["text"]):
            yield {**content, "text": lines}


def check_printing(module: "Module") -> None:
    """Raise unless the printed module is read as the same module."""
    text = str(module)
    try:
        printed = str(ktir.load(text + "\n"))
    except ktir.KtirError as error:
        raise Violation("the printed module is not valid", str(error)) from error
    if printed != text:
        raise Violation("the printed module is read as another module")


def run_function(module: "Module", function: "Function", seed: int) -> None:
    """Compile, estimate and run a kernel with random arguments."""
    chance = random.Random(seed)
    name = function.name
    scalars: dict[str, Any] = random_scalars(function, {}, seed)
    program = module.compile(name, **scalars)
    program.listing()
    for argument in program.arguments:
        if not argument.is_array and argument.name not in scalars:
            scalars[argument.name] = chance.choice(_INTEGERS)
    module.estimate(name, **scalars)
    if max_array_bytes(module, function, program, scalars) > MAX_ARRAY_BYTES:
        return
    canaries = Canaries()
    canaries.add()
    arrays = random_arrays(module, program, scalars, seed)
    try:
        module.run(name, **arrays, **scalars)
    except ktir.KtirError:
        raise
    except Exception as error:
        raise rejection_of_launch(error, name) from error
    finally:
        canaries.check()


def max_array_bytes(
    module: "Module", function: "Function", program: "Program", scalars: dict[str, Any]
) -> int:
    """Return the bytes of the largest array or fixed buffer that a run would allocate."""
    sizes: dict[str, int | None] = {}
    if any(shape is None for _, _, shape in arrays_of(program)):
        names = [argument.name for argument in function.arguments]
        operation, grid = function.operation, function.grid
        card = load_card()
        sizes = array_sizes(operation, names, grid, module.source, card, known=scalars)
    elements = [
        sizes.get(name) or 0 if shape is None else math.prod(shape)
        for name, _, shape in arrays_of(program)
    ]
    fixed = [buffer.bytes for buffer in program.content.fixed_buffers]
    return max([8 * count for count in elements] + fixed, default=0)


def compare_with_interpreter(module: "Module", text: str) -> None:
    """Raise unless the card computes what a plain interpreter computes without the passes."""
    from compiling import compiled
    from program_interpreter import Interpreter
    from random_kernels import INPUTS, OUTPUTS, N

    arrays = {f"in{i}": [3 * i + 7 * j - 20 for j in range(N * N)] for i in range(INPUTS)}
    arrays |= {f"out{i}": [0] * (N * N) for i in range(OUTPUTS)}
    inputs = {key: np.array(values, np.int32).reshape(N, N) for key, values in arrays.items()}
    results = module.run("f", **inputs, n=2)
    plain = compiled(text, optimises=False)
    Interpreter(plain, arrays, [2]).run()
    for key, values in arrays.items():
        if results[key].flatten().tolist() != values:
            details = f"{key} is {results[key].tolist()}, and the interpreter has {values}"
            raise Violation("a generated kernel has another result on the card", details)
