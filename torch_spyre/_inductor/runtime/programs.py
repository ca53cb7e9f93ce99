"""Compiles the programs of a bundle's stages, or finds them in the cache."""

import functools
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch_spyre
from torch_spyre import knobs
from torch_spyre._inductor.compile_log import codegen, log_program
from torch_spyre._inductor.dynamic_sizes import DynamicSpecs
from torch_spyre._inductor.op_spec import OpSpec, without_origins
from torch_spyre._inductor.tiling.tile_plan import tile_budget
from torch_spyre._inductor.to_ktir import build_module
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.cache import cache_key, program_cache
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.errors import ScratchpadOverflowError
from torch_spyre.ktir.module import Module

# The size of a stick: smaller tiles do not exist.
_MIN_TILE_BYTES = 128


@dataclass(frozen=True)
class CompiledStage:
    """A stage in all its forms. `tile_budget` is what its tiles may use of a scratchpad."""

    module: Module
    program: Program
    tile_budget: int


def compile_stage(name: str, specs: Sequence[OpSpec]) -> CompiledStage:
    """Compile a stage for the current card, with tiles that fit the scratchpad."""
    return _compiled(name, specs, load_card())


def program_for(name: str, specs: Sequence[OpSpec]) -> Program:
    """Return the program of a stage for the current card."""
    card = load_card()
    cache = program_cache()
    if cache is None:
        return _compile_program(name, specs, card)
    key = cache_key(
        "opspec",
        name,
        repr(without_origins(specs)),
        card.digest,
        str(knobs.division.k_fast),
        _front_end(),
    )
    program = cache.load(key)
    if program is not None:
        log_program(name, True, f"key {key.hex()[:16]}")
        return program
    program = _compile_program(name, specs, card)
    cache.store(key, program)
    return program


def _compile_program(name: str, specs: Sequence[OpSpec], card: CardDescription) -> Program:
    begin = time.perf_counter()
    program = _compiled(name, specs, card).program
    if codegen.isEnabledFor(logging.DEBUG):
        content = program.content
        milliseconds = (time.perf_counter() - begin) * 1000
        log_program(
            name,
            False,
            f"{len(content.code)} instructions, {content.scratchpad_bytes} bytes of scratchpad on "
            f"each of {specs[0].cores} cores, in {milliseconds:.1f} ms",
        )
    else:
        log_program(name, False, "")
    return program


def dynamic_program(name: str, dynamic: DynamicSpecs) -> Program:
    """Return the program of a stage for ranges of sizes, for the current card."""
    card = load_card()
    cache = program_cache()
    if cache is None:
        return _compiled(name, dynamic.largest, card, dynamic).program
    key = cache_key(
        "dynamic opspec",
        name,
        repr(without_origins(dynamic.specs)),
        repr(dynamic.ranges),
        card.digest,
        str(knobs.division.k_fast),
        _front_end(),
    )
    program = cache.load(key)
    if program is None:
        program = _compiled(name, dynamic.largest, card, dynamic).program
        cache.store(key, program)
    return program


def _compiled(
    name: str,
    specs: Sequence[OpSpec],
    card: CardDescription,
    dynamic: DynamicSpecs | None = None,
) -> CompiledStage:
    budget = tile_budget(card)
    scalars = frozenset(symbol.name for symbol in (dynamic.symbols if dynamic else ()))
    while True:
        module = build_module(name, specs, budget, dynamic)
        function = module.functions[name]
        names = [argument.name for argument in function.arguments]
        try:
            content = compile_function(
                function.operation,
                names,
                function.grid,
                None,
                card,
                known={},
                arrays=frozenset(names) - scalars,
            )
            return CompiledStage(module, Program.from_content(content), budget)
        except ScratchpadOverflowError as error:
            codegen.debug("%s: smaller tiles than %d bytes: %s", name, budget, error)
            # The plan counts tensors; the back end may need more memory for temporaries.
            if budget < _MIN_TILE_BYTES:
                raise
            budget //= 2


@functools.cache
def _front_end() -> str:
    """Return a digest of the code that turns specs into KTIR; a part of the cache key."""
    digest = hashlib.sha256()
    for path in front_end_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def front_end_files() -> list[Path]:
    """Return the files on which the KTIR of a list of specs depends."""
    root = Path(torch_spyre.__file__).parent / "_inductor"
    patterns = ("tiling/*.py", "to_ktir/*.py", "multi_loop/**/*.py", "op_table/*.py")
    folders = (path for pattern in patterns for path in root.glob(pattern))
    names = ("op_spec", "dynamic_sizes", "kernel_parameters", "work_division/core_mapping")
    return sorted((*folders, *(root / f"{name}.py" for name in names)))
