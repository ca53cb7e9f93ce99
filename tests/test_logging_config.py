import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from torch_spyre import logging_config as config

ROOT = Path(__file__).parents[1]
VARIABLES = (
    "TORCH_LOGS",
    "TORCH_LOGS_OUT",
    "TORCH_SPYRE_DEBUG",
    "SPYRE_INDUCTOR_LOG",
    "SPYRE_INDUCTOR_LOG_LEVEL",
    "SPYRE_LOG_FILE",
)


@pytest.fixture(autouse=True)
def start_and_end_with_defaults(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    config.configure()
    yield
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    config.configure()


def configure_with(monkeypatch, **variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    config.configure()


def test_default_level_is_warning_for_every_component():
    assert set(config.get_effective_config().values()) == {"WARNING"}
    assert {config.get_config_source(name) for name in config.list_components()} == {"default"}
    assert config.problems() == ()
    for name in config.list_components():
        assert logging.getLogger(name).level == logging.WARNING


@pytest.mark.parametrize(
    ("entry", "component", "level"),
    [
        ("+torch_spyre", "spyre.device", "DEBUG"),
        ("torch_spyre.device", "spyre.device", "INFO"),
        ("-torch_spyre.device", "spyre.device", "ERROR"),
        ("+torch_spyre._inductor.passes", "spyre.inductor.passes", "DEBUG"),
        ("+spyre.inductor", "spyre.inductor", "INFO"),
        ("spyre.inductor", "spyre.inductor", "INFO"),
        ("-spyre.runtime", "spyre.runtime", "DISABLED"),
        ("spyre.inductor:DEBUG", "spyre.inductor", "DEBUG"),
        ("spyre.inductor:debug", "spyre.inductor.lowering", "DEBUG"),
        ("torch_spyre.device:CRITICAL", "spyre.device", "CRITICAL"),
        ("dynamo, spyre:DEBUG,+aot", "spyre.execution", "DEBUG"),
    ],
)
def test_torch_logs_entry_sets_the_level(monkeypatch, entry, component, level):
    configure_with(monkeypatch, TORCH_LOGS=entry)
    assert config.get_log_level(component).name == level
    assert config.get_config_source(component) == "TORCH_LOGS"
    assert logging.getLogger(component).level == config.LogLevel[level]


@pytest.mark.parametrize("entry", ["dynamo", "+torch", "spyrex:DEBUG", "torch_spyrex", "all"])
def test_entries_of_other_packages_are_ignored(monkeypatch, entry):
    configure_with(monkeypatch, TORCH_LOGS=entry)
    assert set(config.get_effective_config().values()) == {"WARNING"}


def test_nearest_parent_sets_the_level(monkeypatch):
    configure_with(monkeypatch, TORCH_LOGS="spyre:ERROR,spyre.inductor:INFO")
    assert config.get_log_level("spyre.device") == logging.ERROR
    assert config.get_log_level("spyre.inductor.passes") == logging.INFO
    assert config.get_log_level("spyre.inductor.not_listed") == logging.INFO


def test_loggers_named_after_modules_follow(monkeypatch):
    configure_with(monkeypatch, TORCH_LOGS="spyre.inductor:DEBUG")
    assert logging.getLogger("torch_spyre._inductor.anything").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("torch_spyre.device").isEnabledFor(logging.DEBUG)


def test_invalid_level_warns_and_changes_nothing(monkeypatch):
    with pytest.warns(UserWarning, match="spyre.inductor:LOUD"):
        configure_with(monkeypatch, TORCH_LOGS="spyre.inductor:LOUD")
    assert config.get_config_source("spyre.inductor") == "default"
    assert len(config.problems()) == 1


def test_a_misspelt_module_warns(monkeypatch):
    with pytest.warns(UserWarning, match="names no module"):
        configure_with(monkeypatch, TORCH_LOGS="+torch_spyre.devcie")


def test_the_legacy_switch_sets_inductor_to_info_and_is_deprecated(monkeypatch):
    with pytest.warns(DeprecationWarning, match="SPYRE_INDUCTOR_LOG"):
        configure_with(monkeypatch, SPYRE_INDUCTOR_LOG=1)
    assert config.get_log_level("spyre.inductor") == logging.INFO
    assert config.get_log_level("spyre.device") == logging.WARNING
    assert config.get_config_source("spyre.inductor") == "legacy:SPYRE_INDUCTOR_LOG"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_legacy_level_is_used_and_defaults_to_info(monkeypatch):
    configure_with(monkeypatch, SPYRE_INDUCTOR_LOG=1, SPYRE_INDUCTOR_LOG_LEVEL="error")
    assert config.get_log_level("spyre.inductor") == logging.ERROR
    with pytest.warns(UserWarning, match="LOUD"):
        configure_with(monkeypatch, SPYRE_INDUCTOR_LOG_LEVEL="LOUD")
    assert config.get_log_level("spyre.inductor") == logging.INFO


def test_debug_sets_everything_to_debug_and_is_deprecated(monkeypatch):
    with pytest.warns(DeprecationWarning, match="TORCH_SPYRE_DEBUG"):
        configure_with(monkeypatch, TORCH_SPYRE_DEBUG=1)
    assert set(config.get_effective_config().values()) == {"DEBUG"}
    assert config.get_config_source("spyre.device") == "legacy:TORCH_SPYRE_DEBUG"


def test_other_debug_values_are_for_cpp_only(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configure_with(monkeypatch, TORCH_SPYRE_DEBUG=2)
    assert config.get_log_level() == logging.WARNING


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_logs_beats_legacy_and_calls_beat_both(monkeypatch):
    configure_with(monkeypatch, SPYRE_INDUCTOR_LOG=1, TORCH_LOGS="spyre:ERROR")
    assert config.get_log_level("spyre.inductor") == logging.ERROR
    assert config.get_config_source("spyre.inductor") == "TORCH_LOGS"
    config.set_log_level("spyre.inductor", "DEBUG")
    assert config.get_log_level("spyre.inductor.passes") == logging.DEBUG
    assert config.get_config_source("spyre.inductor") == "programmatic"
    assert config.get_config_source("spyre.device") == "TORCH_LOGS"


def test_enable_sets_info_and_disable_suppresses_all(capsys):
    config.enable("spyre.device")
    assert config.get_log_level("spyre.device") == logging.INFO
    config.disable()
    logging.getLogger("spyre.runtime").critical("nobody should see this")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", ["LOUD", 35, ""])
def test_set_log_level_rejects_an_unknown_level(level):
    with pytest.raises(ValueError, match="no log level"):
        config.set_log_level("spyre", level)


@pytest.mark.parametrize("component", ["torch", "inductor", "", "spyrex"])
def test_name_outside_spyre_is_rejected(component):
    with pytest.raises(ValueError, match="not a component"):
        config.set_log_level(component, "INFO")


def test_configure_forgets_unlisted_components_too(monkeypatch):
    config.set_log_level("spyre.other.thing", "DEBUG")
    config.configure()
    assert not config.get_logger("spyre.other.thing").isEnabledFor(logging.DEBUG)


def test_lines_have_the_fixed_form_once_and_go_to_stderr(capsys):
    config.configure()
    config.enable("spyre.device")
    config.get_logger("torch_spyre.device.memory").info("%d bytes", 128)
    captured = capsys.readouterr()
    assert captured.err == "[INFO] [torch_spyre.device.memory] 128 bytes\n"
    assert captured.out == ""


def test_a_log_file_gets_the_lines_as_well(tmp_path, capsys):
    path = str(tmp_path / "spyre.log")
    config.set_log_file(path)
    config.get_logger("spyre.device").warning("kept")
    assert config.get_log_file() == path
    assert config.get_output_config().files == (path,)
    config.set_log_file(None)
    config.get_logger("spyre.device").warning("not kept")
    assert Path(path).read_text() == "[WARNING] [torch_spyre.device] kept\n"
    assert capsys.readouterr().err.count("kept") == 2
    assert config.get_log_file() is None


def test_a_log_file_that_cannot_be_opened_leaves_the_old_one(tmp_path):
    config.set_log_file(str(tmp_path / "good.log"))
    with pytest.raises(OSError):
        config.set_log_file(str(tmp_path / "missing" / "bad.log"))
    assert config.get_log_file() == str(tmp_path / "good.log")


def test_the_log_file_variable_is_deprecated_and_works(monkeypatch, tmp_path):
    with pytest.warns(DeprecationWarning, match="SPYRE_LOG_FILE"):
        configure_with(monkeypatch, SPYRE_LOG_FILE=tmp_path / "spyre.log")
    assert config.get_log_file() == str(tmp_path / "spyre.log")


def test_torch_logs_out_is_followed_only_for_our_torch_logs_entries(monkeypatch, tmp_path):
    configure_with(monkeypatch, TORCH_LOGS_OUT=tmp_path / "torch.log")
    assert config.get_output_config().files == ()
    configure_with(monkeypatch, TORCH_LOGS="+torch_spyre")
    assert config.get_output_config().files == (str(tmp_path / "torch.log"),)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_bad_variables_warn_and_never_raise(monkeypatch, tmp_path):
    with pytest.warns(UserWarning):
        configure_with(
            monkeypatch,
            TORCH_SPYRE_DEBUG="lots",
            SPYRE_INDUCTOR_LOG="maybe",
            SPYRE_LOG_FILE=tmp_path / "missing" / "spyre.log",
            TORCH_LOGS="+spyre.device",
        )
    assert len(config.problems()) == 3
    assert config.get_log_level("spyre.device") == logging.INFO


def test_cpp_gets_a_level_for_every_component():
    config.disable("spyre.runtime")
    numbers = config.get_config_for_cpp()
    assert list(numbers) == config.list_components()
    assert numbers["spyre.runtime"] == 60
    assert numbers["spyre"] == 30


@pytest.fixture
def import_torch(tmp_path):
    """Runs `import torch` in a fresh process that calls `configure` as a backend does at load."""
    information = tmp_path / "log_probe-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: log_probe\nVersion: 0\n")
    entry_point = "torch_spyre.logging_config:configure"
    (information / "entry_points.txt").write_text(f"[torch.backends]\nlog_probe = {entry_point}\n")

    def run(torch_logs, code):
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        environment |= {"TORCH_LOGS": torch_logs, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
        environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
        return subprocess.run(
            [sys.executable, "-c", f"import logging, sys, torch\n{code}"],
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(
    ("torch_logs", "level"),
    [
        ("+torch_spyre", logging.DEBUG),
        ("torch_spyre.device, +inductor", logging.INFO),
        ("+dynamo,spyre.device:DEBUG,-aot", logging.DEBUG),
        ("-spyre", 60),
    ],
)
def test_import_torch_accepts_our_entries_and_preserves_others(import_torch, torch_logs, level):
    out = import_torch(
        torch_logs,
        "print(logging.getLogger('spyre.device').level)\n"
        "print(logging.getLogger('torch._dynamo').level, 'torch._dynamo' in sys.modules)\n"
        "logging.getLogger('spyre.device').info('hello')\n",
    )
    assert out.returncode == 0, out.stderr
    ours, theirs = out.stdout.splitlines()
    assert ours == str(level)
    assert theirs == f"{logging.DEBUG if '+dynamo' in torch_logs else logging.NOTSET} False"
    assert out.stderr == ("" if level == 60 else "[INFO] [spyre.device] hello\n")


def test_import_torch_rejects_invalid_entries_of_other_packages(import_torch):
    assert import_torch("spyre:DEBUG,dynamo:DEBUG", "").returncode == 1
    assert import_torch("+spyre,+no_such_thing", "").returncode == 1
