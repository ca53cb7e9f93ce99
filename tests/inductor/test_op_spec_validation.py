"""Everything that must hold of an OpSpec, broken once."""

from dataclasses import replace

import pytest
import sympy
from division_specs import C, pointwise, tensor, with_splits

from torch_spyre._inductor.op_spec import IndirectAccess, LoopSpec, UnimplementedOp, sympify
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre.errors import InvalidOpSpecError

C0, C1 = C[:2]
SOUND = pointwise("neg", 8, 128)


def with_space(symbol, size, split):
    return replace(SOUND, iteration_space={**SOUND.iteration_space, symbol: (size, split)})


def with_input(**changes):
    return replace(SOUND, args=[replace(SOUND.args[0], **changes), SOUND.args[1]])


INPUT, OUTPUT = SOUND.args
BROKEN = {
    "no tensors": (replace(SOUND, args=[]), "it has no tensors"),
    "an input last": (replace(SOUND, args=[INPUT]), "its last tensor must be the output"),
    "two outputs": (replace(SOUND, args=[OUTPUT, OUTPUT]), "an output before its last tensor"),
    "no elements": (with_space(C0, sympy.Integer(0), 1), "c0 has size 0, not a positive int"),
    "less than none": (with_space(C0, sympy.Integer(-8), 1), "c0 has size -8"),
    "a symbolic size": (with_space(C0, sympy.Symbol("s0"), 1), "c0 has size s0"),
    "half an element": (with_space(C0, sympy.Rational(1, 2), 1), "c0 has size 1/2"),
    "no cores": (with_splits(SOUND, {C0: 0}), "c0 is divided over 0 cores"),
    "too many cores": (with_splits(SOUND, {C1: 64}), "c1 is divided over 64 cores"),
    "too many cores in all": (
        with_splits(SOUND, {C0: 8, C1: 8}),
        "it is divided over 64 cores of 32",
    ),
    "a coordinate too few": (
        with_input(device_coordinates=INPUT.device_coordinates[1:]),
        "tensor 0 has 3 device dims and 2 coordinates",
    ),
    "an empty dim": (with_input(device_size=[0, 8, 64]), "tensor 0 has an empty device dim"),
    "nowhere": (
        with_input(allocation={}),
        "tensor 0 must be allocated in exactly one of hbm, pool and lx, not {}",
    ),
    "two places": (
        with_input(allocation={"hbm": 0, "lx": 0}),
        "tensor 0 must be allocated in exactly one",
    ),
    "an unknown place": (
        with_input(allocation={"disk": 0}),
        "tensor 0 must be allocated in exactly one",
    ),
    "an argument in the scratchpad": (
        with_input(allocation={"lx": 0}),
        "tensor 0 is in lx and has argument index 0",
    ),
    "no argument": (with_input(arg_index=-1), "tensor 0 is in hbm and has argument index -1"),
    "an unknown symbol": (
        with_input(device_coordinates=[C[5], C0, sympy.Mod(C1, 64)]),
        "tensor 0 depends on c5, not in the iteration space",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_error_states_the_violated_rule(name):
    spec, problem = BROKEN[name]
    with pytest.raises(InvalidOpSpecError) as caught:
        validate([spec], cores=32)
    assert str(caught.value).startswith("OpSpec neg: ")
    assert problem in str(caught.value)


def test_valid_spec_passes_in_loops_and_next_to_unimplemented_ops():
    validate([SOUND, LoopSpec(sympify("2"), [SOUND, UnimplementedOp("prod")])], cores=32)


def test_specs_in_loops_are_validated():
    broken, problem = BROKEN["no cores"]
    with pytest.raises(InvalidOpSpecError, match=problem):
        validate([LoopSpec(sympify("2"), [LoopSpec(sympify("2"), [broken])])], cores=32)


def test_core_limit_applies_to_splits():
    validate([with_splits(SOUND, {C0: 4})], cores=4)
    with pytest.raises(InvalidOpSpecError, match="c0 is divided over 8 cores"):
        validate([with_splits(SOUND, {C0: 8})], cores=4)


def test_index_tensor_names_are_not_symbols():
    rows = IndirectAccess(sympy.Symbol("rows"))
    index = tensor((8,), (C0,), elements=32, name="rows")
    table = tensor((100, 128), (rows, C1))
    validate([replace(SOUND, op="identity", args=[index, table, OUTPUT])], cores=32)
