"""Every record agrees with Inductor, with KTIR, with the vector unit and with itself."""

import ast
from pathlib import Path

import pytest
import torch
from record_specs import FORMATS, formats_of, spec_of
from torch._inductor.ops_handler import OpsHandler
from xdsl.dialects.builtin import IndexType, TensorType

import torch_spyre
from torch_spyre import _C
from torch_spyre._inductor.op_table import (
    CUSTOM_LOOP_OPS,
    LOOP_OPS,
    POINTWISE_OPS,
    PUBLIC_OPS,
    RECORDS,
    REDUCTION_OPS,
    Emission,
    Kind,
    OperandClass,
    ResultType,
    record_of,
)
from torch_spyre._inductor.to_ktir.compound_forms import COMPOUND_FORMS
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.backend.lowering.vector_ops import vector_op
from torch_spyre.errors import UnsupportedError

# The number of inputs and the cost class of each.
INSTRUCTIONS = {name: (inputs, cost) for name, inputs, cost in _C._vector_ops()}
INSTRUCTIONS |= {"matmul": (2, "matmul"), "sort": (2, "simple")}
# Operands and results are converted to and from the type that an op computes in; means are scaled.
AROUND_AN_OP = {"extf", "extui", "truncf", "uitofp", "index_cast", "cmpf_une", "cmpi_ne", "mulf"}
COSTS = ("simple", "divide", "transcendental", "random", "matmul")
PACKAGE = Path(torch_spyre.__file__).parent / "_inductor"

WITH_KTIR = [record for record in RECORDS.values() if record.ktir]
# Ops with a spec of one iteration space, whatever their kind.
EMITTED = [
    (RECORDS[name], operand_class)
    for name in sorted({*POINTWISE_OPS, *REDUCTION_OPS, "index"})
    for operand_class in RECORDS[name].ktir
]


def name_of(value):
    return value.value if isinstance(value, OperandClass) else getattr(value, "name", value)


def test_each_record_is_frozen_and_registered_under_its_name():
    for name, record in RECORDS.items():
        assert record.name == name
        with pytest.raises(AttributeError):
            record.arity = 7


def test_ops_without_ktir_are_of_the_public_inventory():
    assert {record.name for record in RECORDS.values() if not record.ktir} <= PUBLIC_OPS


@pytest.mark.parametrize("record", WITH_KTIR, ids=name_of)
def test_ops_with_ktir_have_a_reference(record):
    assert callable(record.reference)


def test_loop_op_lowers_to_a_single_op():
    loop_ops = [
        (loop_op, record.reduction is None)
        for record in RECORDS.values()
        for loop_op in record.loop_ops
    ]
    assert len(loop_ops) == len(set(loop_ops))


def test_loop_ops_are_those_of_inductor_but_for_custom_ones():
    missing = [name for name in LOOP_OPS if not hasattr(OpsHandler, name)]
    assert sorted(missing) == sorted(CUSTOM_LOOP_OPS)


def test_variants_on_bools_are_logical_ops_of_the_same_arity():
    for record in RECORDS.values():
        if record.bool_variant is None:
            continue
        variant = record_of(record.bool_variant)
        assert variant.kind is Kind.LOGICAL and variant.arity == record.arity


def test_comparisons_and_logical_ops_return_bool():
    for record in RECORDS.values():
        returns_bool = record.kind in (Kind.COMPARISON, Kind.LOGICAL)
        assert (record.result is ResultType.BOOL) == returns_bool, record.name


def test_reductions_have_a_rule():
    for name in REDUCTION_OPS:
        rule = RECORDS[name].reduction
        assert rule is not None
        assert rule.is_combinable == (RECORDS[name].kind is Kind.REDUCTION)
        assert rule.scale is None or rule.scale in RECORDS[name].constants


def test_every_compound_form_belongs_to_a_record():
    names = {
        form.name
        for record in WITH_KTIR
        for form in record.ktir.values()
        if form.emission is Emission.COMPOUND
    }
    assert names == set(COMPOUND_FORMS)


@pytest.mark.parametrize("record", WITH_KTIR, ids=name_of)
def test_instructions_exist_with_the_arity_and_cost_of_the_record(record):
    instructions = {name for form in record.ktir.values() for name in form.instructions}
    assert instructions <= INSTRUCTIONS.keys()
    # Gathers only move elements.
    costs = [INSTRUCTIONS[name][1] for name in instructions] or [COSTS[0]]
    assert record.cost == max(costs, key=COSTS.index)
    for form in record.ktir.values():
        if form.emission not in (Emission.OPERATION, Emission.INTRINSIC):
            continue
        (instruction,) = form.instructions
        # A reduction combines two accumulators.
        assert INSTRUCTIONS[instruction][0] == (2 if record.reduction else record.arity)


def vector_instructions(module):
    """Return the mnemonics of everything in a module but the arithmetic of addresses."""
    mnemonics = set()
    for operation in module.operation.walk():
        instruction = vector_op(operation)
        if instruction is None:
            continue
        parent = operation.parent_op()
        is_in_linalg = parent is not None and parent.name.startswith("linalg.")
        result = instruction.result.type
        if isinstance(result, TensorType) or (is_in_linalg and not isinstance(result, IndexType)):
            mnemonics.add(instruction.name)
    return mnemonics


@pytest.mark.parametrize(("record", "operand_class"), EMITTED, ids=name_of)
def test_ktir_verifies_and_becomes_the_instructions_of_the_record(record, operand_class):
    form = record.ktir[operand_class]
    for format in formats_of(record, operand_class):
        module = build_module("kernel", [spec_of(record, format)])
        module.verify()
        instructions = vector_instructions(module)
        assert instructions <= {*form.instructions, *AROUND_AN_OP}
        if form.emission is not Emission.DEDICATED:
            assert set(form.instructions) <= instructions


@pytest.mark.parametrize("name", sorted(POINTWISE_OPS | REDUCTION_OPS))
def test_operand_classes_that_a_record_lacks_are_rejected(name):
    record = RECORDS[name]
    for operand_class in {OperandClass.FLOAT, OperandClass.INTEGER} - record.ktir.keys():
        if record.kind in (Kind.LOGICAL, Kind.CONVERSION):
            continue
        with pytest.raises(UnsupportedError, match=name):
            build_module("kernel", [spec_of(record, FORMATS[operand_class][0])])


def test_no_other_module_names_an_op_of_the_card():
    """Names that PyTorch and Inductor have too may stand elsewhere for theirs."""
    loop_ops = {loop_op for record in RECORDS.values() for loop_op in record.loop_ops}
    functions = {*dir(torch), *dir(torch.nn.functional)}
    distinctive = RECORDS.keys() - loop_ops - functions
    # A kind of layout, and a word of SuperDSC.
    distinctive -= {"exx2", "index"}
    assert len(distinctive) > 20
    actual = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "op_table":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in distinctive:
                actual.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}")
    assert actual == []
