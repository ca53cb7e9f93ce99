"""The instruction set is described once: whatever derives from the description agrees with it."""

import dataclasses
from pathlib import Path

import generate_instruction_set
import pytest
import torch  # noqa: F401  The extension needs its libraries.
from generated_sections import stale_files

from torch_spyre import _C
from torch_spyre.backend.lowering import nodes
from torch_spyre.backend.program import description
from torch_spyre.backend.program.element_types import ElementType
from torch_spyre.backend.program.instructions import INSTRUCTIONS, Instruction
from torch_spyre.backend.program.vector_instructions import (
    REDUCTIONS,
    VECTOR_INSTRUCTIONS,
    VECTOR_INSTRUCTIONS_BY_KTIR_OP,
)
from torch_spyre.ktir.dialects.context import ktir_context
from torch_spyre.testing import instructions as golden

ROOT = Path(__file__).resolve().parents[3]


def test_generated_files_are_current():
    stale = [
        str(path.relative_to(ROOT))
        for path in stale_files(generate_instruction_set.generated_files())
    ]
    assert not stale, "run `make generate`"


def test_the_extension_has_the_same_instruction_set():
    assert [tuple(record) for record in _C._instruction_set()] == description.describe()


def test_the_extension_has_the_same_vector_instructions():
    described = [
        (entry.mnemonic, entry.num_operands, entry.cost.value) for entry in VECTOR_INSTRUCTIONS
    ]
    assert _C._vector_ops() == described


def test_opcodes_are_numbered_from_one_without_gaps():
    assert list(INSTRUCTIONS) == list(range(1, len(INSTRUCTIONS) + 1))


def test_codes_of_vector_instructions_are_distinct_and_ascending():
    codes = [entry.code for entry in VECTOR_INSTRUCTIONS]
    assert codes == sorted(set(codes))


def test_every_list_has_a_limit():
    with pytest.raises(TypeError, match="1 lists, 0 of which have a limit"):
        description.field_type(tuple[int, ...])


def test_every_ktir_op_of_the_table_exists():
    known = {op.name for op in ktir_context().loaded_ops}
    assert set(VECTOR_INSTRUCTIONS_BY_KTIR_OP) <= known


def test_the_golden_model_defines_every_vector_instruction():
    casts = {entry.mnemonic for entry in VECTOR_INSTRUCTIONS if entry.signature.name == "CAST"}
    comparisons = {name for name in _mnemonics() if name.startswith("cmpf_")}
    functions = golden.FLOAT_FUNCTIONS.keys() | golden.INTEGER_FUNCTIONS.keys()
    assert functions | casts | comparisons | {"philox", "select"} == _mnemonics()


def test_reductions_are_named_after_arith_ops():
    for mnemonic in REDUCTIONS:
        assert VECTOR_INSTRUCTIONS_BY_KTIR_OP[f"arith.{mnemonic}"].mnemonic == mnemonic


def test_the_golden_model_has_every_element_type():
    assert {type.mlir_name for type in ElementType} | {"f16_ieee"} == set(golden.TYPES)


@pytest.mark.parametrize(
    "node",
    [kind for kind in vars(nodes).values() if isinstance(kind, type) and hasattr(kind, "reads")],
)
def test_a_node_has_an_attribute_for_every_field_of_its_instruction(node):
    instruction = getattr(node, "instruction", None)
    if instruction is None:
        return
    assert issubclass(instruction, Instruction)
    attributes = {field.name for field in dataclasses.fields(node)} | set(dir(node))
    assert {field.name for field in dataclasses.fields(instruction)} <= attributes


def _mnemonics():
    return {entry.mnemonic for entry in VECTOR_INSTRUCTIONS}
