"""Patches are described, apply with a clear error, can be undone, and are all in one folder."""

import ast
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import torch_spyre
from torch_spyre.errors import PytorchChangedError
from torch_spyre.pytorch_internals import registry
from torch_spyre.pytorch_internals.check import resolve
from torch_spyre.pytorch_internals.import_hook import after_import
from torch_spyre.pytorch_internals.records import Lifetime, Patch, PrivateName
from torch_spyre.pytorch_internals.registry import PATCHES

PACKAGE = Path(torch_spyre.__file__).parent


@pytest.mark.parametrize("patch", PATCHES, ids=[patch.name for patch in PATCHES])
def test_every_patch_documents_change_reason_and_risk(patch):
    assert patch.targets
    for text in (patch.changes, patch.reason, patch.breaks):
        assert text.endswith(".") and "\n" not in text and "|" not in text


def test_names_of_patches_are_unique():
    names = [patch.name for patch in PATCHES]
    assert len(set(names)) == len(names)


def test_a_missing_target_names_the_page_to_read():
    patch = Patch(
        name="example",
        targets=(PrivateName("torch.Tensor.nope"),),
        changes="",
        reason="",
        breaks="",
        apply=lambda undo: pytest.fail("must not be applied"),
    )
    with pytest.raises(PytorchChangedError, match=r"no torch\.Tensor\.nope.*porting-to-a-new"):
        registry._apply(patch, ExitStack())


UNDO = """
import torch
import torch_spyre
from torch_spyre.pytorch_internals.check import resolve
from torch_spyre.pytorch_internals.records import Lifetime
from torch_spyre.pytorch_internals.registry import PATCHES, apply_to_process

# Their C functions are replaced, not the Python objects.
IN_METHOD_TABLES = {"torch.Tensor.to", "torch.empty"}
replaced = [
    target.path
    for patch in PATCHES
    if patch.lifetime is Lifetime.PROCESS and not patch.after_import
    for target in patch.targets
]
before = {path: resolve(path) for path in replaced}
torch.utils.rename_privateuse1_backend("spyre")
undo = apply_to_process()
changed = {path for path in replaced if resolve(path) is not before[path]}
assert torch.empty(2, device_layout=None).shape == (2,)
undo.close()
left = {path for path in replaced if resolve(path) is not before[path]}
assert not left, left
for call in (torch.empty, torch.zeros(2).to):
    try:
        call(2, device_layout=None)
    except TypeError:
        continue
    raise AssertionError("device_layout is still accepted")
print(sorted(changed))
"""


def test_patches_of_the_process_can_be_undone(tmp_path):
    """In a process without autoload, where nothing is patched yet."""
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", UNDO], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    changed = ast.literal_eval(done.stdout)
    assert "torch.Tensor.__repr__" in changed and "torch.optim.Adam._init_group" in changed


def test_patches_of_a_compilation_are_undone_after_it():
    targets = [
        target.path
        for patch in PATCHES
        if patch.lifetime is Lifetime.COMPILATION
        for target in patch.targets
    ]
    before = {path: _state(resolve(path)) for path in targets}
    with registry.applied_while_compiling():
        assert any(_state(resolve(path)) != before[path] for path in targets)
    assert {path: _state(resolve(path)) for path in targets} == before


def _state(value: object) -> object:
    """Copy the content of a table or a class, which patches change in place."""
    if isinstance(value, dict):
        return dict(value)
    return dict(vars(value)) if isinstance(value, type) else value


def test_an_action_runs_when_its_module_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "module_for_the_hook.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    calls = []
    with ExitStack() as undo:
        after_import(undo, "module_for_the_hook", lambda: calls.append("loaded"))
        assert calls == []
        import module_for_the_hook  # noqa: F401  (its import is the test)

        assert calls == ["loaded"]
        del sys.modules["module_for_the_hook"]
    import module_for_the_hook  # noqa: F401, F811  (runs the hook again)

    assert calls == ["loaded"]


# Attributes of our own objects, or public settings.
ALLOWED_ASSIGNMENTS = {"torch.backends"}


def test_no_other_module_assigns_to_attributes_of_pytorch():
    elsewhere = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "pytorch_internals"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _changes_pytorch(node)
    ]
    assert not elsewhere, f"make these a patch of torch_spyre/pytorch_internals: {elsewhere}"


def _changes_pytorch(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Attribute) and ast.unparse(target).startswith("torch.")
            for target in node.targets
        )
    is_setattr = isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr"
    return is_setattr and ast.unparse(node.args[0]).startswith("torch")


def test_importing_torch_imports_no_compiler():
    script = "import sys, torch; print('torch._inductor' in sys.modules, 'sympy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == "False"
    assert torch.spyre is not None
