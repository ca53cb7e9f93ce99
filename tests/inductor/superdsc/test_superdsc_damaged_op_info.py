"""Tests that ops with damaged `opInfo` are rejected, or can still be lowered to KTIR."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import make_tensor

from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.errors import BundleError, UnsupportedError

KERNELS = {
    "attention": (
        lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True, enable_gqa=True),
        (make_tensor(1, 4, 70, 64), make_tensor(1, 2, 90, 64)),
    ),
    "coordinates": (
        lambda x: torch.where(torch.arange(130, device=x.device) // 2 > 7, x, 0),
        (make_tensor(3, 130),),
    ),
    "cat": (lambda x, y: torch.cat([x, y], 1), (make_tensor(8, 64), make_tensor(8, 128))),
}
WRONG_VALUES = [None, True, -1, 0, 2, 1 << 70, 2.5, "", "x", "c0(", "7", [], {}, [1], {"c0": 1}]


@pytest.fixture
def bundle(tmp_path, compiled_kernels):
    def write(name):
        function, tensors = KERNELS[name]
        compiled_kernels.compile(function, *tensors)
        generate_bundle(name, tmp_path, compiled_kernels.specs)
        return tmp_path

    return write


def dsc_of(file):
    """Return the DSC in the content of a SuperDSC file."""
    ((_, body),) = file.items()
    ((_, dsc),) = body["dscs_"][0].items()
    return dsc


def damaged_infos(info):
    """Yield copies of `opInfo` with one entry, at any depth, deleted or replaced."""
    for name, entry in info.items():
        yield {key: item for key, item in info.items() if key != name}
        yield from ({**info, name: wrong} for wrong in WRONG_VALUES if wrong != entry)
        if isinstance(entry, dict):
            yield from ({**info, name: inner} for inner in damaged_infos(entry))


@pytest.mark.parametrize("name", KERNELS)
def test_damaged_op_info_is_rejected_or_harmless(name, bundle):
    folder = bundle(name)
    num_rejected = 0
    for path in sorted(folder.glob("sdsc_*.json")):
        content = json.loads(path.read_text())
        info = dsc_of(content).get("torchSpyre_", {}).get("opInfo", {})
        for damaged_info in damaged_infos(info):
            damaged = copy.deepcopy(content)
            dsc_of(damaged)["torchSpyre_"]["opInfo"] = damaged_info
            path.write_text(json.dumps(damaged))
            try:
                programs = import_programs(folder)
            except BundleError as error:
                num_rejected += 1
                assert f"bundle: {path.name}: " in str(error) and "opInfo" in str(error)
                continue
            for position, program in enumerate(programs):
                build_module(f"kernel_{position}", program)
        path.write_text(json.dumps(content))
    assert num_rejected > 5


def test_expressions_are_not_executed(bundle, tmp_path):
    folder = bundle("coordinates")
    for path in folder.glob("sdsc_*.json"):
        content = json.loads(path.read_text())
        info = dsc_of(content).get("torchSpyre_", {}).get("opInfo", {})
        if "expression" in info:
            info["expression"] = "().__class__.__base__.__subclasses__()"
            path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match=r"opInfo\.expression: .* is not allowed in a coordinate"):
        import_programs(folder)


@pytest.mark.parametrize("name", ["exp", "where3", "batchmatmul", "sum", "index", "attention"])
def test_an_op_with_a_wrong_number_of_tensors_is_rejected(name, tmp_path, compiled_kernels):
    compiled_kernels.compile(torch.add, make_tensor(6, 70), make_tensor(6, 70))
    generate_bundle("add", tmp_path, compiled_kernels.specs)
    path = tmp_path / "sdsc_0.json"
    path.write_text(path.read_text().replace('0_add"', f'0_{name}"').replace('"add"', f'"{name}"'))
    with pytest.raises((BundleError, UnsupportedError), match=name):
        for program in import_programs(tmp_path):
            build_module("kernel", program)
