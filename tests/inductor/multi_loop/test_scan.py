"""Scans are one kernel whose tiles follow one another along the scanned dim."""

import json

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor

from torch_spyre._inductor.multi_loop.roles import ROLES_INFO
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre.errors import BundleError

pytestmark = pytest.mark.usefixtures("no_fallbacks")

# The scanned dim: alone, along sticks, between other dims, and longer than a scratchpad holds.
SHAPES = [
    ((300,), 0),
    ((7, 130), 1),
    ((7, 130), 0),
    ((3, 5, 70), 1),
    ((2, 64, 3), 1),
    ((40, 20000), 1),
    ((20000, 40), 0),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_scans_agree_with_the_cpu(shape, dim):
    def scans(x, n):
        return x.cumsum(dim), n.cumsum(dim), *x.cummax(dim), *n.cummin(dim)

    x = (torch.arange(torch.Size(shape).numel()) * 7 % 31 - 15).reshape(shape)
    assert_close_to_cpu(scans, x.float() / 8, x)


@pytest.mark.parametrize("length", [16384, 20001, 100000])
def test_a_long_scan_of_one_row_is_divided_over_cores(length, compiled_kernels):
    row = torch.arange(length) % 13 - 6
    (result,) = compiled_kernels.compile(lambda x: [x.cumsum(0)], row)
    assert torch.equal(result.cpu(), row.cumsum(0))
    assert max(spec.cores for spec in compiled_kernels.specs) == 32


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_logcumsumexp_of_infinities(dtype):
    x = torch.tensor([[-torch.inf, -torch.inf, 0, 1], [2, torch.inf, 0, -torch.inf]], dtype=dtype)
    assert_close_to_cpu(lambda x: (x.logcumsumexp(1), x.logcumsumexp(0)), x)


def test_sums_of_16_bit_floats_are_rounded_once():
    # 0.25 is lost if it is added to 512 in 16 bits.
    x = torch.full((4, 1024), 0.25, dtype=torch.float16)
    x[:, 0] = 512
    result = x.to("spyre").cumsum(1).cpu()
    expected = x.double().cumsum(1).half().to("spyre").cpu()
    assert torch.equal(result, expected)


def test_integers_wrap():
    x = torch.full((3, 100), 2**30, dtype=torch.int32)
    assert torch.equal(x.to("spyre").cumsum(1, dtype=torch.int32).cpu(), x.cumsum(1, dtype=x.dtype))
    small = torch.full((3, 100), 100, dtype=torch.int8)
    result = small.to("spyre").cumsum(1, dtype=torch.int8)
    assert torch.equal(result.cpu(), small.cumsum(1, dtype=torch.int8))


def test_a_scan_is_one_program(compiled_kernels):
    compiled_kernels.compile(lambda x: [x.cumsum(1)], make_tensor(64, 300))
    assert compiled_kernels.ops == [["scanadd"]]
    assert [spec.cores for spec in compiled_kernels.specs] == [32]


def test_device_time_grows_with_the_length_not_with_its_square():
    times = []
    for length in (1024, 8192):
        x = torch.ones(64, length, dtype=torch.float16, device="spyre")
        before = torch.spyre.counters()["device_time_ps"]
        x.cumsum(1)
        times.append(torch.spyre.counters()["device_time_ps"] - before)
    assert times[1] < 12 * times[0]


def test_a_bundle_of_a_scan_computes_the_same(tmp_path, compiled_kernels):
    x = make_tensor(8, 200, dtype=torch.float32).to("spyre")
    compiled_kernels.compile(lambda x: [x.cumsum(1)], x.cpu())
    generate_bundle("scan", tmp_path, compiled_kernels.specs)
    programs = import_programs(str(tmp_path))
    result = torch.empty_like(x)
    Runner("scan", programs).run(x, result)
    assert torch.equal(result.cpu(), x.cumsum(1).cpu())
    assert ROLES_INFO in compiled_kernels.specs[0].op_info


def test_a_bundle_whose_scan_is_longer_than_its_result_is_rejected(tmp_path, compiled_kernels):
    compiled_kernels.compile(lambda x: [x.cumsum(1)], make_tensor(8, 200, dtype=torch.float32))
    generate_bundle("scan", tmp_path, compiled_kernels.specs)
    path = tmp_path / "sdsc_0.json"
    content = json.loads(path.read_text())
    ((_, body),) = content.items()
    ((_, dsc),) = body["dscs_"][0].items()
    roles = dsc["torchSpyre_"]["opInfo"][ROLES_INFO]
    roles["column"], roles["outer"] = roles["outer"], roles["column"]
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="as long as the column"):
        import_programs(tmp_path)
