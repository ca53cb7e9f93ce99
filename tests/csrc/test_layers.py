"""The layers of csrc include only headers that they may depend on."""

import re
from pathlib import Path

import pytest

import torch_spyre

SOURCES = Path(torch_spyre.__file__).parent / "csrc"
# Folder -> folders whose headers its files may include.
ALLOWED = {
    "flex": {"flex"},
    "emulator": {"emulator", "flex"},
    "torch": {"torch", "flex"},
    "profiler": {"profiler", "torch", "flex"},
    "emulator_bindings": {"emulator_bindings", "emulator", "torch", "flex"},
}
INCLUDE = re.compile(r'^\s*#include "([^"/]+)/', re.MULTILINE)
TORCH_HEADER = re.compile(
    r"^\s*#include [<\"](ATen|c10|pybind11|Python\.h|torch/(?:csrc|library|extension))",
    re.MULTILINE,
)


def files_of(folder: str) -> list[Path]:
    return [
        path for path in (SOURCES / folder).rglob("*.*") if path.suffix in (".h", ".cpp", ".inc")
    ]


def test_every_folder_has_a_rule():
    assert {path.name for path in SOURCES.iterdir() if path.is_dir()} == set(ALLOWED)


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_layer_includes_only_what_it_may(folder):
    wrong = [
        f"{path.relative_to(SOURCES)} includes {included}/"
        for path in files_of(folder)
        for included in INCLUDE.findall(path.read_text(encoding="utf-8"))
        if included not in ALLOWED[folder]
    ]
    assert not wrong, f"{wrong}: go through csrc/flex/driver.h, or move the binding"


@pytest.mark.parametrize("folder", ["flex", "emulator"])
def test_the_core_knows_neither_pytorch_nor_python(folder):
    wrong = [
        str(path.relative_to(SOURCES))
        for path in files_of(folder)
        if TORCH_HEADER.search(path.read_text(encoding="utf-8"))
    ]
    assert not wrong
