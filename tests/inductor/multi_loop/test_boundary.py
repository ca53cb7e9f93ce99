"""Multi-loop ops are known to the rest of the compiler through the registry only."""

import ast
from pathlib import Path

import pytest

import torch_spyre._inductor
from torch_spyre._inductor.multi_loop import registry
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp

ROOT = Path(torch_spyre._inductor.__file__).parent
PACKAGE = "torch_spyre._inductor.multi_loop"
# What the rest of the compiler may import.
INTERFACE = {f"{PACKAGE}.{module}" for module in ("interface", "registry", "roles")}
# The op's own record, decomposition and lowering, and the packages that import these.
PACKAGES = ("op_table", "decompositions", "lowerings")
OWN_FILES = {f"{package}/attention.py" for package in PACKAGES}
MENTIONS = {
    *OWN_FILES,
    *(f"{package}/__init__.py" for package in PACKAGES),
    # PyTorch's modules that consist of attention and linear layers.
    "decompositions/transformer.py",
    # PyTorch's higher-order op of that name.
    "fx_passes.py",
}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("multi_loop/"):
            yield name, path.read_text()


def test_only_its_own_modules_mention_attention():
    mentions = {name for name, text in modules() if "attention" in text.lower()}
    assert mentions == MENTIONS


def test_other_modules_import_the_interface_only():
    wrong = {}
    for name, text in modules():
        imported = {
            node.module
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE)
        }
        if name not in OWN_FILES and imported - INTERFACE:
            wrong[name] = imported - INTERFACE
    assert not wrong


def test_the_interface_imports_no_op():
    for module in INTERFACE:
        text = (ROOT / "multi_loop" / f"{module.rpartition('.')[2]}.py").read_text()
        names = [str(getattr(node, "module", "")) for node in ast.walk(ast.parse(text))]
        assert not [name for name in names if name.startswith(PACKAGE) and name not in INTERFACE]


def test_names_are_registered_once():
    attention = registry.multi_loop_op("attention")
    assert registry.find_multi_loop_op("add") is None
    with pytest.raises(ValueError, match="attention is registered twice"):
        registry.register(attention)


def test_every_hook_must_be_implemented():
    with pytest.raises(TypeError, match="abstract"):
        type("Incomplete", (MultiLoopOp,), {"names": ("incomplete",)})()
