"""The import graph of the compiler: which modules may import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "torch_spyre" / "_inductor"
ROOT = "torch_spyre._inductor"


def imported_modules(path):
    """Every module of the compiler that a file imports, also inside of functions."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {module for module in modules if module.startswith(ROOT)}


def is_within(module, package):
    return module == package or module.startswith(f"{package}.")


def files(folder):
    return sorted((PACKAGE / folder).rglob("*.py"))


@pytest.mark.parametrize("path", files("passes"), ids=lambda path: path.stem)
def test_a_pass_imports_neither_the_emitter_nor_another_pass(path):
    forbidden = (f"{ROOT}.to_ktir", f"{ROOT}.passes", f"{ROOT}.pipeline")
    actual = {
        m for m in imported_modules(path) if any(is_within(m, package) for package in forbidden)
    }
    assert not actual


@pytest.mark.parametrize("path", files("tiling"), ids=lambda path: path.stem)
def test_tiling_imports_neither_passes_nor_the_emitter(path):
    forbidden = (f"{ROOT}.to_ktir", f"{ROOT}.passes", f"{ROOT}.pipeline")
    actual = {
        m for m in imported_modules(path) if any(is_within(m, package) for package in forbidden)
    }
    assert not actual


@pytest.mark.parametrize("path", files("to_ktir"), ids=lambda path: path.stem)
def test_the_emitter_imports_no_pass(path):
    forbidden = (f"{ROOT}.passes", f"{ROOT}.pipeline")
    actual = {
        m for m in imported_modules(path) if any(is_within(m, package) for package in forbidden)
    }
    assert not actual


def importers(name):
    return {str(path.relative_to(PACKAGE)) for path in files(".") if name in imported_modules(path)}


def test_only_the_driver_runs_passes_and_dumps():
    # A verification of passes keeps what they return.
    runners = {"driver.py", "verification/pass_checks.py"}
    assert importers(f"{ROOT}.pipeline.run_passes") == runners
    assert importers(f"{ROOT}.runtime.dump.dump") == {"driver.py"}


def test_eager_ops_and_compiled_graphs_call_the_driver():
    assert importers(f"{ROOT}.driver.compile_bundle") == {"call_lowering.py", "scheduling.py"}
    assert importers(f"{ROOT}.driver.load_kernel") == {"async_compile.py"}
