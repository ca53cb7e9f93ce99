"""Every private name of PyTorch that we patch or use exists and has the form we rely on.

These tests come first in a port to a new release: docs/porting-to-a-new-pytorch.md.
"""

import importlib.util
from pathlib import Path

import pytest
from source_scan import names_in_package, private_names

import torch_spyre
from torch_spyre.pytorch_internals.check import problem_of, resolve
from torch_spyre.pytorch_internals.records import PrivateName
from torch_spyre.pytorch_internals.registry import PATCHES
from torch_spyre.pytorch_internals.uses import USES

PAGE = "docs/porting-to-a-new-pytorch.md"
TARGETS = [(patch.name, target) for patch in PATCHES for target in patch.targets]
# Reached through instances: no source text contains these paths.
INDIRECT = {
    "torch._inductor.ops_handler.OpsHandler",
    "torch._inductor.sizevars.SizeVarAllocator.guarding_hint_or_throw",
    "torch._inductor.sizevars.SizeVarAllocator.simplify",
}


def check(name: PrivateName, user: str) -> None:
    package = name.path.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    problem = problem_of(name)
    if problem is not None:
        pytest.fail(f"{problem} (needed for: {user}): see {PAGE}", pytrace=False)


@pytest.mark.parametrize(
    ("patch", "target"), TARGETS, ids=[f"{patch}-{target.path}" for patch, target in TARGETS]
)
def test_the_target_of_a_patch_exists(patch, target):
    check(target, f"patch {patch!r}")


@pytest.mark.parametrize("use", USES, ids=[use.name.path for use in USES])
def test_a_private_name_that_we_use_exists(use):
    check(use.name, use.purpose)


def test_every_private_name_in_the_source_has_a_record():
    recorded = [use.name.path for use in USES] + [target.path for _, target in TARGETS]
    unrecorded = {
        name: files
        for name, files in names_in_package(Path(torch_spyre.__file__).parent).items()
        if not any(_is_part_of(name, path) or _is_part_of(path, name) for path in recorded)
    }
    assert not unrecorded, f"add to torch_spyre/pytorch_internals/uses.py: {unrecorded}"


def test_every_record_has_a_use_in_the_source():
    mentioned = names_in_package(Path(torch_spyre.__file__).parent)
    unused = [
        use.name.path
        for use in USES
        if use.name.path not in INDIRECT
        and not any(_is_part_of(name, use.name.path) for name in mentioned)
    ]
    assert not unused, f"remove from torch_spyre/pytorch_internals/uses.py: {unused}"


def _is_part_of(name: str, path: str) -> bool:
    """True if `name` is the path or something below it."""
    return name == path or name.startswith(path + ".")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (PrivateName("torch.nope"), "torch.nope is gone"),
        (PrivateName("torch.nn.nope.Thing"), "torch.nn.nope.Thing is gone"),
        (PrivateName("torch.Tensor.nope"), "torch.Tensor.nope is gone"),
        (PrivateName("torch._inductor.nope"), "torch._inductor.nope is gone"),
        (PrivateName("torch.nn.Module", members=("to", "nope")), "torch.nn.Module has no nope"),
        (PrivateName("torch.nn.Module.register_buffer", ("nope",)), "has no parameter nope"),
        (PrivateName("torch.nn.Module.register_buffer", ("name", "tensor")), None),
        (PrivateName("torch._inductor.compile_fx.compile_fx_inner"), None),
    ],
)
def test_problems_are_named(name, problem):
    actual = problem_of(name)
    assert actual is None if problem is None else problem in actual


def test_names_resolve_to_objects_of_modules_that_are_not_loaded_yet():
    import torch

    assert resolve("torch.nn.Linear") is torch.nn.Linear
    assert resolve("torch._inductor.exc.LoweringException").__name__ == "LoweringException"


def test_the_scan_follows_aliases():
    source = """
import torch
import torch._dynamo as dynamo
from torch._inductor import ir as inductor_ir
from torch.utils._pytree import tree_map
dynamo.reset()
inductor_ir.TensorBox.create(1)
torch._C._nn._parse_to()
torch.nn.functional.relu(torch.ops.aten._to_copy.default)
"""
    assert private_names(source) == {
        "torch._dynamo",
        "torch._dynamo.reset",
        "torch._inductor.ir",
        "torch._inductor.ir.TensorBox.create",
        "torch.utils._pytree.tree_map",
        "torch._C._nn._parse_to",
    }
