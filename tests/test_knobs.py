import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_spyre import knob_registry, knobs
from torch_spyre.errors import KnobError, KnobWarning
from torch_spyre.knob_kinds import FallbackSetting
from torch_spyre.tools import knobs_command

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for knob in knobs.all_knobs():
        monkeypatch.delenv(knob.name, raising=False)


def test_defaults_hold_in_an_empty_environment():
    assert knobs.device.driver == "EMU"
    assert knobs.device.card == "spyre"
    assert knobs.device.world_size is None
    assert knobs.device.visible is None
    assert knobs.device.local_rank == 0
    assert knobs.execution.fallback == FallbackSetting("warn")
    assert knobs.execution.downcast_warning is True
    assert knobs.execution.int64_overflow == "warn"
    assert knobs.emulator.fp16 == "sen169"
    assert knobs.emulator.poison is False
    assert knobs.emulator.cache_megabytes == 2048
    assert 1 <= knobs.emulator.threads <= os.cpu_count()
    assert knobs.logging.debug == 0


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("FLEX_DEVICE", "PF", "PF"),
        ("FLEX_DEVICE", "vf", "VF"),
        ("FLEX_DEVICE", "MOCK", "EMU"),
        ("AIU_WORLD_SIZE", "2", 2),
        ("SPYRE_DEVICES", "0, 2,3", (0, 2, 3)),
        ("SPYRE_DEVICES", "1,0,1", (1, 0)),
        ("SPYRE_DEVICES", "-1", (-1,)),
        ("IS_INDUCTOR_SPAWNED_SUBPROCESS", "1", 1),
        ("TORCH_SPYRE_DOWNCAST_WARN", "OFF", False),
        ("TORCH_SPYRE_DOWNCAST_WARN", "False", False),
        ("TORCH_SPYRE_DOWNCAST_WARN", "0", False),
        ("TORCH_SPYRE_DOWNCAST_WARN", "whatever", True),
        ("TORCH_SPYRE_FALLBACK", "Error", FallbackSetting("error")),
        (
            "TORCH_SPYRE_FALLBACK",
            "silent,allow:aten.a, aten.b.c,allow:d.e",
            FallbackSetting("silent", ("aten.a", "aten.b.c", "d.e")),
        ),
        ("TORCH_SPYRE_FALLBACK", "allow:aten.a", FallbackSetting("warn", ("aten.a",))),
        ("SPYRE_EMU_FP16", "ieee", "ieee"),
        ("SPYRE_EMU_POISON", "yes", True),
        ("SPYRE_EMU_CACHE_MB", "0", 0),
        ("TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", "8", 8),
        ("SENCORES", "16", 16),
        ("SPYRE_CORE_ID_K_FAST_EMISSION", "0", False),
    ],
)
def test_good_text_is_parsed_at_access(monkeypatch, name, text, value):
    knob = next(knob for knob in knobs.all_knobs() if knob.name == name)
    monkeypatch.setenv(name, text)
    assert knob.value() == value
    assert type(knob.value()) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("FLEX_DEVICE", "GPU", "EMU, PF, VF, MOCK"),
        ("AIU_WORLD_SIZE", "0", "at least 1"),
        ("AIU_WORLD_SIZE", "two", "an integer"),
        ("SPYRE_DEVICES", "0,x", "integers separated by commas"),
        ("SPYRE_DEVICES", "0,,1", "integers separated by commas"),
        ("SPYRE_EMU_THREADS", "0", "at least 1"),
        ("SPYRE_EMU_FP16", "bf16", "sen169, ieee"),
        ("SPYRE_EMU_POISON", "2", "1/true/yes/on"),
        ("TORCH_SPYRE_FALLBACK", "loud", "warn, silent, error"),
        ("TORCH_SPYRE_FALLBACK", "error,allow:", "warn, silent, error"),
        ("TORCH_SPYRE_FALLBACK", "error,aten.a", "allow: and names of ops"),
        ("TORCH_SPYRE_FALLBACK", "error,allow:aten.a,,aten.b", "names of ops"),
        ("TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", "9", "from 1 to 8"),
    ],
)
def test_bad_text_is_an_error_that_names_variable_value_and_choices(
    monkeypatch, name, text, allowed
):
    knob = next(knob for knob in knobs.all_knobs() if knob.name == name)
    monkeypatch.setenv(name, text)
    with pytest.raises(KnobError) as caught:
        knob.value()
    for part in (name, repr(text), allowed):
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_bad_number_of_cores_reads_as_upstream_words_it(monkeypatch, text):
    monkeypatch.setenv("SENCORES", text)
    with pytest.raises(KnobError, match=f"invalid SENCORES value {text}"):
        _ = knobs.division.cores


def test_an_empty_value_counts_as_unset(monkeypatch):
    monkeypatch.setenv("AIU_WORLD_SIZE", "  ")
    assert knobs.device.world_size is None


def test_override_wins_over_the_environment_nests_and_ends(monkeypatch):
    monkeypatch.setenv("SPYRE_EMU_THREADS", "3")
    with knobs.override(SPYRE_EMU_THREADS=1, SPYRE_EMU_POISON=True):
        assert (knobs.emulator.threads, knobs.emulator.poison) == (1, True)
        with knobs.override(SPYRE_EMU_THREADS=None):
            assert knobs.emulator.threads == len(os.sched_getaffinity(0))
        assert knobs.emulator.threads == 1
    assert (knobs.emulator.threads, knobs.emulator.poison) == (3, False)


def test_listeners_hear_of_every_begin_and_end_of_an_override(monkeypatch):
    monkeypatch.setattr(knob_registry, "_listeners", [])
    heard = []
    knobs.on_override(lambda: heard.append(knobs.emulator.threads))
    with knobs.override(SPYRE_EMU_THREADS=3), knobs.override(SPYRE_EMU_THREADS=5):
        pass
    assert heard == [3, 5, 3, knobs.emulator.threads]


def test_override_refuses_a_name_that_is_no_knob():
    with pytest.raises(KeyError, match="SPYRE_EMU_THREDS"), knobs.override(SPYRE_EMU_THREDS=1):
        pass


def test_override_ends_after_an_exception():
    with pytest.raises(ZeroDivisionError), knobs.override(LOCAL_RANK=1):
        raise ZeroDivisionError
    assert knobs.device.local_rank == 0


def test_a_knob_cannot_be_assigned():
    with pytest.raises(AttributeError, match="override"):
        knobs.emulator.threads = 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("TORCH_SPYRE_FALBACK", "did you mean TORCH_SPYRE_FALLBACK?"),
        ("SPYRE_FALLBACK", "did you mean TORCH_SPYRE_FALLBACK?"),
        ("SPYRE_EMU_THREAD", "did you mean SPYRE_EMU_THREADS?"),
        ("SPYRE_VISIBLE_DEVICES", "did you mean SPYRE_DEVICES?"),
        ("TORCH_SPYRE_XYZZY", "`spyre knobs` lists the variables"),
    ],
)
def test_unknown_variable_with_our_prefix_is_a_warning(monkeypatch, name, hint):
    monkeypatch.setenv(name, "1")
    with pytest.warns(KnobWarning) as caught:
        knobs.warn_about_unknown_variables()
    (warning,) = caught
    assert str(warning.message).startswith(f"{name} is set") and hint in str(warning.message)


def test_known_and_foreign_variables_are_no_warning(monkeypatch, recwarn):
    for knob in knobs.all_knobs():
        monkeypatch.setenv(knob.name, knob.default_text)
    for name in ("SPYREX", "VLLM_SPYRE_USE_CB", "MY_SPYRE_CARD"):
        monkeypatch.setenv(name, "1")
    knobs.warn_about_unknown_variables()
    assert not recwarn.list


def test_import_of_torch_reports_a_misspelled_variable():
    done = subprocess.run(
        [sys.executable, "-c", "import torch"],
        env={**os.environ, "TORCH_SPYRE_FALBACK": "error"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "KnobWarning: TORCH_SPYRE_FALBACK is set" in done.stderr
    assert "TORCH_SPYRE_FALLBACK?" in done.stderr


def test_vendor_defaults_are_set_only_where_unset(monkeypatch):
    monkeypatch.setenv("DTLOG_LEVEL", "debug")
    for name in ("TORCH_SENDNN_LOG", "DT_DEEPRT_VERBOSE"):
        monkeypatch.setenv(name, "restored by monkeypatch")
        monkeypatch.delenv(name)
    knobs.set_vendor_defaults()
    assert os.environ["TORCH_SENDNN_LOG"] == "CRITICAL"
    assert os.environ["DT_DEEPRT_VERBOSE"] == "-1"
    assert os.environ["DTLOG_LEVEL"] == "debug"


def test_every_knob_has_help_section_and_standing():
    for knob in knobs.all_knobs():
        assert knob.help.endswith("."), knob.name
        assert "\n" not in knob.help
        assert knob.section
        assert knob.standing in knobs.STANDINGS


def test_every_default_is_a_value_its_own_text_would_give():
    of_this_host = (
        "number of host cores",
        "number of cores of the card",
        "torch_spyre/programs in the user's cache folder",
        "torch-spyre-<user id> in XDG_RUNTIME_DIR, /dev/shm or /tmp",
        "torch_spyre/reports in the user's cache folder",
    )
    for knob in knobs.all_knobs():
        if knob.default_text not in ("unset", *of_this_host):
            assert knob.kind.parse(knob.default_text) == knob.value(), knob.name


def _readers(source):
    """Yield (section, attribute) of every knob that a module reads.

    A module reads `knobs.section.attribute`, or binds `knobs.section` or `knobs.SectionKnobs` to a
    name and reads an attribute of that.
    """
    sections = {}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign([ast.Name(name)], ast.Attribute(ast.Name("knobs"), section)):
                sections[name] = section
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(ast.Attribute(ast.Name("knobs"), section), attribute):
                yield section, attribute
            case ast.Attribute(ast.Name(name), attribute) if name in sections:
                yield sections[name], attribute


def test_every_knob_has_a_reader_or_is_listed_as_without_effect():
    package = ROOT / "torch_spyre"
    readers = {reader for path in package.rglob("*.py") for reader in _readers(path.read_text())}
    sections = {
        name: value for name, value in vars(knobs).items() if isinstance(value, knobs.Section)
    }
    unread = {
        knob.name
        for section, instance in sections.items()
        for attribute, knob in vars(type(instance)).items()
        if isinstance(knob, knobs.Knob)
        and (section, attribute) not in readers
        and (type(instance).__name__, attribute) not in readers
    }
    accepted = {knob.name for knob in knobs.all_knobs() if knob.standing == "accepted"}
    # PyTorch reads it before it loads this package.
    assert unread == accepted | {"TORCH_DEVICE_BACKEND_AUTOLOAD"}


def _environment_uses(source):
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for alias in node.names if alias.name in names)


def test_only_knobs_touches_the_environment():
    actual = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "torch_spyre").rglob("*.py")
        for line in _environment_uses(path.read_text())
    }
    assert {place.partition(":")[0] for place in actual} == {
        "torch_spyre/knob_registry.py",
        "torch_spyre/knobs.py",
    }


def test_the_documentation_is_what_the_table_says(monkeypatch):
    monkeypatch.setenv("SPYRE_EMU_THREADS", "not a number")  # values must not leak into the page
    assert (ROOT / "docs" / "knobs.md").read_text() == knobs_command.markdown()


def test_modules_loaded_with_torch_stay_light():
    code = (
        "import sys\n"
        "import torch_spyre.constants, torch_spyre.errors\n"
        "import torch_spyre.knobs, torch_spyre.logging_config\n"
        "torch_spyre.logging_config.configure()\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", code],  # without site, whose .pth files import what they like
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, dynamo = out.stdout.splitlines()
    assert "pydantic" not in loaded
    assert set(ast.literal_eval(loaded)) <= {"__main__", "torch_spyre"}
    assert dynamo == "False"
