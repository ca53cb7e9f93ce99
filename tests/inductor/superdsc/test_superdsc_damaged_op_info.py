"""What kernels of ours say of an op beside its tensors, damaged: refused by name, or still KTIR."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from comparing import numbers

from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.errors import BundleError, UnsupportedError

KERNELS = {
    "attention": (
        lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True, enable_gqa=True),
        (numbers(1, 4, 70, 64), numbers(1, 2, 90, 64)),
    ),
    "coordinates": (
        lambda x: torch.where(torch.arange(130, device=x.device) // 2 > 7, x, 0),
        (numbers(3, 130),),
    ),
    "parts": (lambda x, y: torch.cat([x, y], 1), (numbers(8, 10), numbers(8, 30))),
}
WRONG = [None, True, -1, 0, 2, 1 << 70, 2.5, "", "x", "c0(", "7", [], {}, [1], {"c0": 1}]


@pytest.fixture
def bundle(tmp_path, kernels_made):
    def written(name):
        function, tensors = KERNELS[name]
        kernels_made.of(function, *tensors)
        generate_bundle(name, tmp_path, kernels_made.specs)
        return tmp_path

    return written


def op_of(whole):
    ((_, body),) = whole.items()
    ((_, dsc),) = body["dscs_"][0].items()
    return dsc


def damages(info):
    """Every entry, at every depth, left out or replaced."""
    for name, entry in info.items():
        yield {other: item for other, item in info.items() if other != name}
        yield from ({**info, name: wrong} for wrong in WRONG if wrong != entry)
        if isinstance(entry, dict):
            yield from ({**info, name: inner} for inner in damages(entry))


@pytest.mark.parametrize("name", KERNELS)
def test_damage_is_named_or_harmless(name, bundle):
    folder = bundle(name)
    refused = 0
    for path in sorted(folder.glob("sdsc_*.json")):
        whole = json.loads(path.read_text())
        info = op_of(whole).get("torchSpyre_", {}).get("opInfo", {})
        for damaged in damages(info):
            spoiled = copy.deepcopy(whole)
            op_of(spoiled)["torchSpyre_"]["opInfo"] = damaged
            path.write_text(json.dumps(spoiled))
            try:
                programs = import_programs(folder)
            except BundleError as error:
                refused += 1
                assert f"bundle: {path.name}: " in str(error) and "opInfo" in str(error)
                continue
            for number, program in enumerate(programs):
                build_module(f"kernel_{number}", program)
        path.write_text(json.dumps(whole))
    assert refused > 5


def test_texts_are_not_executed(bundle, tmp_path):
    folder = bundle("coordinates")
    for path in folder.glob("sdsc_*.json"):
        whole = json.loads(path.read_text())
        info = op_of(whole).get("torchSpyre_", {}).get("opInfo", {})
        if "expression" in info:
            info["expression"] = "().__class__.__base__.__subclasses__()"
            path.write_text(json.dumps(whole))
    with pytest.raises(BundleError, match=r"opInfo\.expression: .* is not part of a coordinate"):
        import_programs(folder)


@pytest.mark.parametrize("name", ["exp", "where3", "batchmatmul", "sum", "index", "attention"])
def test_an_op_of_another_number_of_tensors_is_refused(name, tmp_path, kernels_made):
    kernels_made.of(torch.add, numbers(6, 70), numbers(6, 70))
    generate_bundle("add", tmp_path, kernels_made.specs)
    path = tmp_path / "sdsc_0.json"
    path.write_text(path.read_text().replace('0_add"', f'0_{name}"').replace('"add"', f'"{name}"'))
    with pytest.raises((BundleError, UnsupportedError), match=name):
        for program in import_programs(tmp_path):
            build_module("kernel", program)
