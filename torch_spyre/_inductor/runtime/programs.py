"""Programs for the stages of a bundle, compiled or found in the cache."""

import functools
import hashlib
from collections.abc import Sequence
from math import prod
from pathlib import Path

import torch_spyre
from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.to_ktir import build_module
from torch_spyre._inductor.to_ktir.access import parameter
from torch_spyre._inductor.to_ktir.kernel import parameters
from torch_spyre._inductor.to_ktir.plan import tile_budget
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.cache import cache_key, program_cache
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.errors import ScratchpadOverflowError
from torch_spyre.ktir.module import Module

STICK_BYTES = 128


def array_bytes(arg: TensorArg) -> int:
    """What the tensor takes in device memory."""
    return prod(arg.device_size[:-1]) * STICK_BYTES


def held_bytes(specs: Sequence[OpSpec]) -> list[int]:
    """Of every array of a stage's program, in the order of its parameters."""
    sizes = {
        parameter(arg): array_bytes(arg)
        for spec in specs
        for arg in spec.args
        if not arg.in_scratchpad
    }
    return [sizes[name] for name in parameters(specs)]


def module_for(name: str, specs: Sequence[OpSpec]) -> Module:
    """KTIR whose tiles fit the scratchpad."""
    module, _ = _compiled(name, specs, load_card())
    return module


def program_for(name: str, specs: Sequence[OpSpec]) -> Program:
    card = load_card()
    cache = program_cache()
    if cache is None:
        return _compiled(name, specs, card)[1]
    key = cache_key(
        "opspec",
        name,
        repr(list(specs)),
        card.digest,
        str(knobs.division.k_fast),
        _front_end(),
    )
    program = cache.find(key)
    if program is None:
        program = _compiled(name, specs, card)[1]
        cache.keep(key, program)
    return program


def _compiled(name: str, specs: Sequence[OpSpec], card: CardDescription) -> tuple[Module, Program]:
    budget = tile_budget(card)
    while True:
        module = build_module(name, specs, budget)
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
                arrays=frozenset(names),
            )
            return module, Program.of(content)
        except ScratchpadOverflowError:
            # The plan counts tensors; what the back end keeps alive between them can be more.
            if budget < STICK_BYTES:
                raise
            budget //= 2


@functools.cache
def _front_end() -> str:
    """The code that turns specs into KTIR: programs of another version must not be found."""
    digest = hashlib.sha256()
    for path in front_end_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def front_end_files() -> list[Path]:
    """Return the files on which the KTIR of a list of specs depends."""
    root = Path(torch_spyre.__file__).parent / "_inductor"
    folders = (*root.glob("to_ktir/*.py"), *root.glob("op_table/*.py"))
    return sorted((*folders, root / "op_spec.py", root / "work_division" / "core_mapping.py"))
