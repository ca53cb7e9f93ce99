"""A multi-loop op that only a test knows goes through all passes and runs."""

import json

import pytest
import torch
from cpu_reference import make_tensor
from row_centering import CENTERED, MAXIMA, OVERLOAD

from torch_spyre._inductor.multi_loop.roles import ROLES_INFO
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre.errors import BundleError

SHAPES = [(8, 200), (64, 64), (33, 130), (3, 1000)]


def center_rows(x):
    return OVERLOAD(x, 0.5)


def expected(x):
    maxima = x.amax(1)
    return (x - maxima[:, None]) * 0.5, maxima


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_results_are_computed_by_one_program(shape, compiled_kernels):
    x = make_tensor(*shape, dtype=torch.float32)
    results = compiled_kernels.compile(center_rows, x)
    assert compiled_kernels.ops == [[CENTERED, MAXIMA]]
    for actual, reference in zip(results, expected(x), strict=True):
        assert torch.equal(actual.cpu(), reference)


def test_rows_are_split_over_cores(compiled_kernels):
    compiled_kernels.compile(center_rows, make_tensor(64, 64, dtype=torch.float32))
    assert [spec.cores for spec in compiled_kernels.specs] == [32, 32]


def test_other_ops_are_not_fused_with_it(compiled_kernels):
    x = make_tensor(64, 64, dtype=torch.float32)
    (result,) = compiled_kernels.compile(lambda x: [center_rows(x + 1)[0] * 2], x)
    assert compiled_kernels.ops == [["add"], [CENTERED], ["mul"]]
    assert torch.equal(result.cpu(), expected(x + 1)[0] * 2)


def test_operands_with_other_sticks_are_copied_first(compiled_kernels):
    x = make_tensor(100, 70, dtype=torch.float32)
    results = compiled_kernels.compile(lambda x: center_rows(x.t()), x)
    assert compiled_kernels.ops == [["ReStickifyOpHBM"], [CENTERED, MAXIMA]]
    for actual, reference in zip(results, expected(x.t()), strict=True):
        assert torch.equal(actual.cpu(), reference)


@pytest.fixture
def bundle(tmp_path, compiled_kernels):
    compiled_kernels.compile(center_rows, make_tensor(8, 200, dtype=torch.float32))
    generate_bundle("rows", tmp_path, compiled_kernels.specs)
    return tmp_path


def test_it_is_read_back_from_superdsc(tmp_path, compiled_kernels):
    x = make_tensor(8, 200, dtype=torch.float32)
    results = compiled_kernels.compile(center_rows, x)
    generate_bundle("rows", tmp_path, compiled_kernels.specs)
    programs = import_programs(tmp_path)
    assert [spec.op_info[ROLES_INFO] for program in programs for spec in program] == [
        spec.op_info[ROLES_INFO] for spec in compiled_kernels.specs
    ]
    for result in results:
        result.zero_()
    Runner("rows_read_back", programs).run(x.to("spyre"), *results)
    for actual, reference in zip(results, expected(x), strict=True):
        assert torch.equal(actual.cpu(), reference)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda info: info.pop(ROLES_INFO), "roles: is missing"),
        (lambda info: info[ROLES_INFO].pop("row"), "row: is missing"),
        (
            lambda info: info[ROLES_INFO].update(column=info[ROLES_INFO]["row"]),
            "symbols of the role row",
        ),
        (lambda info: info[ROLES_INFO].update(row={"c0": 2}), "must be 1, the product"),
        (lambda info: info[ROLES_INFO].update(reduced={}), "must be one symbol"),
    ],
)
def test_damaged_roles_are_rejected(damage, message, bundle):
    path = bundle / "sdsc_0.json"
    content = json.loads(path.read_text())
    ((_, body),) = content.items()
    ((_, dsc),) = body["dscs_"][0].items()
    damage(dsc["torchSpyre_"]["opInfo"])
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match=message):
        import_programs(bundle)
