"""Programs in the cache are found for what they were compiled for, and for nothing else."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from division_specs import C, matmul, pointwise, with_splits

from torch_spyre import knobs
from torch_spyre._inductor import config, inputs, op_table
from torch_spyre._inductor.runtime import programs
from torch_spyre.backend.program import cache as program_cache
from torch_spyre.testing.cards import write_card

SPEC = with_splits(pointwise("neg", 8, 128), {C[0]: 4})
SPEC = replace(SPEC, args=[SPEC.args[0], replace(SPEC.args[1], arg_index=1)])


@pytest.fixture
def compiles(tmp_path, monkeypatch):
    """Return a function that returns whether a call compiles, instead of loading a program."""
    compilations = []
    compile_specs = programs._compiled
    monkeypatch.setattr(
        programs, "_compiled", lambda *all: compilations.append(1) or compile_specs(*all)
    )

    def call(specs=(SPEC,), name="kernel"):
        compilations.clear()
        programs.program_for(name, specs)
        return bool(compilations)

    with knobs.override(TORCH_SPYRE_PROGRAM_CACHE=str(tmp_path / "programs")):
        assert call()
        assert not call()
        yield call


@pytest.fixture
def another_card(tmp_path):
    return str(write_card(tmp_path / "card.yaml", {"compute.lx_bytes": 2**20}))


def test_card_is_part_of_the_program_key(compiles, another_card):
    with knobs.override(SPYRE_CARD=another_card):
        assert compiles()
        assert not compiles()
    assert not compiles()


def test_core_order_is_part_of_the_program_key(compiles):
    product = [with_splits(matmul(64, 128, 128), {C[0]: 2, C[2]: 2})]
    args = [replace(arg, arg_index=place) for place, arg in enumerate(product[0].args)]
    product = [replace(product[0], args=args)]
    assert compiles(product)
    with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION="0"):
        assert compiles(product)
    assert not compiles(product)


def test_version_is_part_of_the_program_key(compiles, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(programs, "_front_end", lambda: "another")
        assert compiles()
    with monkeypatch.context() as patch:
        patch.setattr(program_cache, "_compiler_hash", lambda: "another")
        assert compiles()
    assert not compiles()


def test_op_records_are_part_of_the_program_key():
    folder = Path(op_table.__file__).parent
    assert set(folder.glob("*.py")) <= set(programs.front_end_files())


def test_specs_and_name_are_part_of_the_program_key(compiles):
    assert compiles([with_splits(SPEC, {C[0]: 8})])
    assert compiles([replace(SPEC, op="abs")])
    assert compiles(name="other")


def graph_key():
    with inputs.compiling_for([]):
        return config.environment


# Another value of each knob that the front end reads while it makes code.
CHANGED = {
    "SENCORES": "4",
    "SPYRE_CORE_ID_K_FAST_EMISSION": "0",
    "SPYRE_INDUCTOR_IGNORE_HINTS": "1",
    "MAX_BUCKETS": "8",
    "MIN_DEFAULT_GRANULARITY": "8",
    "TORCH_SPYRE_FUSION": "0",
}
# What it reads otherwise, and why graphs need not be compiled again for it.
WITHOUT_CODE = {
    "TORCH_SPYRE_VALIDATE_PASSES": "only checks bundles, and changes none",
    "TORCH_SPYRE_DUMP": "wrappers hold what dumps need in any case",
    "TORCH_SPYRE_VERIFY": "kernels are verified when they are loaded",
    "TORCH_SPYRE_DUMP_MB": "only the files of a dump depend on it",
    "SPYRE_EMU_FP16": "kernels are equal in both formats; recordings and references are not",
    "SPYRE_EMU_MODE": "whether there are results to check",
    "SPYRE_CARD": "a part of the key by the digest of its description",
    "TORCH_SPYRE_VERIFY_PASSES": "graphs from the cache are reported as not verified",
    "UNROLL_LOOPS": "only files to read are written so",
    "BUNDLE_SYMBOLIC_ARGS": "only files to read are written so",
}


@pytest.mark.parametrize("name", CHANGED)
def test_settings_that_change_generated_code_are_part_of_the_graph_key(name):
    before = graph_key()
    with knobs.override(**{name: CHANGED[name]}):
        assert graph_key() != before
    assert graph_key() == before


def test_card_is_part_of_the_graph_key(another_card):
    before = graph_key()
    with knobs.override(SPYRE_CARD=another_card):
        assert graph_key() != before
    assert graph_key() == before


def test_every_setting_that_the_front_end_reads_is_part_of_the_graph_key():
    folder = Path(inputs.__file__).parent
    texts = [path.read_text() for path in folder.glob("**/*.py")]
    read = {knob for text in texts for knob in re.findall(r"\bknobs\.(\w+)\.(\w+)", text)}
    sections = {section: getattr(knobs, section) for section, _ in read if section.islower()}
    names = {
        getattr(type(sections[section]), knob).name for section, knob in read if section in sections
    }
    division = {knob.name for knob in knobs.knobs_in_section(knobs.DivisionKnobs.title)}
    assert names | division == CHANGED.keys() | WITHOUT_CODE.keys()
