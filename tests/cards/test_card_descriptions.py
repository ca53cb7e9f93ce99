import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from torch_spyre import knobs
from torch_spyre.cards import load_card, usable_cores
from torch_spyre.errors import CardDescriptionError, InvalidCoresError
from torch_spyre.testing import cards as card_files
from torch_spyre.testing.cards import load_changed_card

ROOT = Path(__file__).parents[2]
PRESET = ROOT / "torch_spyre" / "cards" / "spyre.yaml"


@pytest.fixture
def write_card(tmp_path):
    def write(text):
        path = tmp_path / "card.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def change_card(write_card):
    """A copy of the preset with one entry changed; None drops it."""

    def change(section, key, leaf):
        content = yaml.safe_load(PRESET.read_text())
        if leaf is None:
            del content[section][key]
        else:
            content[section][key] = {**content[section].get(key, {}), **leaf}
        return write_card(yaml.safe_dump(content))

    return change


def test_the_preset_is_the_documented_card():
    card = load_card("spyre")
    assert (card.identity.name, card.identity.type) == ("IBM Spyre (emulated)", "dd2")
    assert (card.compute.cores, card.compute.corelets) == (32, 2)
    assert card.compute.lx_bytes == 2 * 2**20
    assert card.compute.lx_usable_bytes == 1_625_344
    assert card.compute.stick_bytes == 128
    assert card.memory.physical_bytes == 128 * 2**30
    assert card.memory.ecc_bytes == 16 * 2**30
    assert card.memory.usable_bytes == 112 * 2**30
    assert card.memory.alignment_bytes == 128
    assert card.memory.segment_bytes == 0x400000000
    assert card.memory.program_segment * card.memory.segment_bytes == 0x1C00000000
    assert card.memory.span_limit_bytes == 256 * 2**20
    assert card.host_link.gigabytes_per_second == card.timing.PCIE_GBS == 50
    assert card.host_link.latency_us == card.timing.PCIE_LAT_US == 8


def test_timing_constants_are_exact_and_consistent():
    timing = load_card("spyre").timing
    assert Fraction(1140, 1536) == timing.PT_SUSTAIN
    assert Fraction("5.74") == timing.DDR_TURN
    assert Fraction("-1.14") == timing.RELAYOUT_A
    flops = 2 * timing.N_CORES * timing.PT_MAC_FP16 * timing.CLOCK_GHZ * 10**9
    assert flops == Fraction("98.304e12")
    # A balanced copy of 8 MiB each way takes 160 us at the fitted rate and turnaround.
    size = 8 * 2**20
    microseconds = (2 * size / timing.DDR_BW + size * timing.DDR_TURN / 1000) / 1000
    assert round(microseconds) == 160
    assert timing.DDR_CORES_G[0] == (1, Fraction("0.11"))
    assert timing.DDR_CORES_G[-1] == (timing.N_CORES, 1)


def test_entries_that_repeat_another_one_are_derived(tmp_path):
    values = {"compute.cores": 16, "compute.corelets": 1, "ring.bytes_per_cycle": 64}
    card = load_changed_card(tmp_path / "card.yaml", values)
    timing = card.timing
    assert (timing.N_CORES, timing.CORELETS, timing.RING_BYTES_CYCLE) == (16, 1, 64)
    assert {source.entry for source in card.sources} == {
        source.entry for source in load_card("spyre").sources
    }


def test_a_repeated_entry_must_agree(tmp_path):
    path = card_files.write_card(
        tmp_path / "card.yaml", {"compute.cores": 16, "timing.N_CORES": 32}
    )
    with pytest.raises(CardDescriptionError, match=r"compute\.cores and timing\.N_CORES"):
        load_card(path)


def test_digests_are_of_values_only(tmp_path):
    spyre = load_card("spyre")
    same = load_changed_card(tmp_path / "same.yaml", {"compute.cores": spyre.compute.cores})
    other = load_changed_card(tmp_path / "other.yaml", {"compute.cores": 16})
    assert same.path != spyre.path and same.digest == spyre.digest
    assert other.digest != spyre.digest
    assert other.digest == load_card(other.path).digest


def test_the_card_in_use_is_read_once(tmp_path):
    path = card_files.write_card(tmp_path / "card.yaml", {"compute.cores": 16})
    with knobs.override(SPYRE_CARD=str(path)):
        card = load_card()
        card_files.write_card(path, {"compute.cores": 8})
        os.utime(path, ns=(1, 1))
        assert load_card() is card and load_card(path).compute.cores == 8


@pytest.mark.parametrize("cores", [8, 16, 32])
def test_sencores_may_ask_for_at_most_the_cores_of_the_card(tmp_path, cores):
    card = load_changed_card(tmp_path / "card.yaml", {"compute.cores": cores})
    with knobs.override(SENCORES=None):
        assert usable_cores(card) == cores
    with knobs.override(SENCORES=cores):
        assert usable_cores(card) == cores
    with knobs.override(SENCORES=4):
        assert usable_cores(card) == 4
    problem = f"invalid SENCORES value {cores + 1}: allowed are integers from 1 to {cores}"
    with knobs.override(SENCORES=cores + 1), pytest.raises(InvalidCoresError, match=problem):
        usable_cores(card)


def test_every_value_has_a_unit_and_a_source():
    card = load_card("spyre")
    entries = {
        f"{section}.{key}"
        for section in ("identity", "compute", "memory", "ring", "host_link", "power", "timing")
        for key in type(getattr(card, section)).model_fields
    }
    assert {source.entry for source in card.sources} == entries
    for source in card.sources:
        assert source.source
        assert source.unit or source.entry.startswith("identity.")


def test_every_assumption_has_a_reason():
    for source in load_card("spyre").sources:
        if source.source.startswith("assumed"):
            assert len(source.source) > len("assumed: "), source.entry


def test_a_card_cannot_be_changed():
    with pytest.raises(ValidationError):
        load_card("spyre").compute.cores = 1


def test_spyre_card_names_the_card_in_use(change_card):
    path = change_card("identity", "name", {"value": "Another"})
    assert load_card().identity.name == "IBM Spyre (emulated)"
    with knobs.override(SPYRE_CARD=str(path)):
        assert load_card().identity.name == "Another"


def test_a_card_is_read_again_only_after_a_change(change_card):
    path = change_card("identity", "name", {"value": "Before"})
    first = load_card(path)
    assert load_card(str(path)) is first
    change_card("identity", "name", {"value": "After"})
    os.utime(path, ns=(1, 1))
    assert load_card(path).identity.name == "After"


def test_the_interpreter_preset_has_the_figures_of_its_code():
    timing = load_card("ktir-cpu").timing
    assert (timing.N_CORES, timing.CLOCK_GHZ) == (32, 1)
    assert (timing.DDR_PEAK, timing.DDR_BW) == (128, 128)  # 0.128 TB/s
    assert timing.RING_BYTES_CYCLE == 64  # 0.064 TB/s per direction at 1 GHz
    assert timing.SFP_LANES_16 == 64
    assert 2 * timing.PT_MAC_FP16 == 2 * 64 * 8  # FLOP per cycle, 8 systolic rows
    assert timing.SFP_COST_TRANSCENDENTAL == 4


def test_fitted_rates_are_exact_and_their_other_terms_vanish():
    fit = load_card("spyre").timing.DDR_CAT_OUTER
    assert (fit.base, fit.sticks, fit.rows) == (144, Fraction("-9.6"), Fraction("-2.4"))
    assert fit.columns == fit.rows_squared == 0


def test_a_file_may_extend_a_preset(write_card):
    usable = "{value: 64, unit: MiB, source: 'assumed: small, to test running out of memory'}"
    card = load_card(write_card(f"extends: spyre\nmemory:\n  usable_bytes: {usable}\n"))
    assert card.memory.usable_bytes == 64 * 2**20
    assert card.memory.segment_count == 8
    assert card.timing == load_card("spyre").timing
    source = next(source for source in card.sources if source.entry == "memory.usable_bytes")
    assert source.source.startswith("assumed: small")


def test_file_may_extend_another_in_its_folder_but_not_itself(write_card, tmp_path):
    (tmp_path / "base.yaml").write_text("extends: spyre\n")
    assert load_card(write_card("extends: base.yaml\n")).compute.cores == 32
    with pytest.raises(CardDescriptionError, match="extends itself"):
        load_card(write_card("extends: ./card.yaml\n"))
    with pytest.raises(CardDescriptionError, match=r"gone\.yaml: No such file"):
        load_card(write_card("extends: gone.yaml\n"))


@pytest.mark.parametrize(
    ("section", "key", "leaf", "problem"),
    [
        ("compute", "cores", {"value": 0}, r"compute\.cores: .*greater than 0"),
        ("compute", "cores", {"value": "32"}, r"compute\.cores: .*integer"),
        ("compute", "cores", {"value": True}, r"compute\.cores: .*integer"),
        ("compute", "stick_bytes", {"value": 256}, "stick_bytes must be 128"),
        ("compute", "lx_bytes", {"value": 100, "unit": "bytes"}, "whole sticks"),
        (
            "compute",
            "threads",
            {"value": 1, "unit": "x", "source": "code"},
            "compute.threads: .*xtr",
        ),
        ("memory", "usable_bytes", {"value": 129}, "usable_bytes is more than"),
        ("memory", "alignment_bytes", {"value": 64}, "multiple of 128"),
        ("memory", "program_segment", {"value": 8}, "below segment_count"),
        ("memory", "segment_count", None, r"memory\.segment_count: Field required"),
        ("timing", "DDR_BW", {"value": 300}, "DDR_BW is more than DDR_PEAK"),
        ("timing", "DDR_BW", {"value": "fast"}, "'fast' is not a number"),
        ("timing", "PT_SUSTAIN", {"value": "1/0"}, "'1/0' is not a number"),
        ("timing", "PT_SUSTAIN", {"value": 1.5}, "less than or equal to 1"),
        ("timing", "CLOCK_GHZ", {"value": float("nan")}, "nan is not a number"),
        ("timing", "DDR_CORES_G", {"value": [[2, 0.5], [1, 0.1]]}, "must be ascending"),
        ("timing", "OVERLAP", {"value": "hope"}, r"timing\.OVERLAP: .*'units'"),
        ("timing", "WHOLE_CYCLES", {"value": 1}, r"timing\.WHOLE_CYCLES: .*boolean"),
        ("timing", "DDR_CAT_OUTER", {"value": {"base": 1}}, r"DDR_CAT_OUTER\.floor: Field req"),
        ("timing", "DDR_BW", {"source": "somebody"}, r"timing\.DDR_BW: source must begin with"),
        ("timing", "DDR_BW", {"unit": None}, r"timing\.DDR_BW: a number needs a unit"),
        ("timing", "DDR_BW", {"note": "x"}, r"timing\.DDR_BW: must be \{value, unit, source\}"),
    ],
)
def test_invalid_value_is_rejected_with_the_name_of_the_entry(
    change_card, section, key, leaf, problem
):
    path = change_card(section, key, leaf)
    with pytest.raises(CardDescriptionError, match=problem) as caught:
        load_card(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("identity: [", "not YAML"),
        ("- a list", "must be sections"),
        ("", "must be sections"),
        ("cores: 32", "must be sections"),
        ("extends: spyre\npath: {x: {value: a, unit: b, source: code}}", "path"),
        ("extends: spyre\nextra: {}", "extra: Extra inputs"),
        ("extends: spyre\nring: {}\nring: {}", "ring given more than once"),
        ("extends: spyre\nring: {directions: 2}", r"ring\.directions: must be"),
        ("extends: nothing", "no such preset"),
    ],
)
def test_malformed_file_is_rejected(write_card, text, problem):
    with pytest.raises(CardDescriptionError, match=problem):
        load_card(write_card(text))


def test_a_missing_file_or_preset_is_named(tmp_path):
    with pytest.raises(CardDescriptionError, match=r"gone\.yaml: No such file"):
        load_card(tmp_path / "gone.yaml")
    with pytest.raises(CardDescriptionError, match="'granite'.*there are ktir-cpu, spyre"):
        load_card("granite")
    with pytest.raises(CardDescriptionError, match="directory"):
        load_card(f"{tmp_path}/")


def test_binary_file_is_rejected(tmp_path):
    (tmp_path / "card.yaml").write_bytes(b"\xff\xfe\x00card")
    with pytest.raises(CardDescriptionError, match="not YAML"):
        load_card(tmp_path / "card.yaml")


def test_importing_the_knobs_does_not_load_cards():
    code = "import sys, torch_spyre.logging_config; print('torch_spyre.cards' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert out.stdout.strip() == "False", out.stderr
