"""Gathers and scatters are one kernel, in the scratchpad, whose tiles pass once."""

import json

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor

from torch_spyre._inductor.multi_loop.roles import ROLES_INFO
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre.errors import BundleError

pytestmark = pytest.mark.usefixtures("no_fallbacks")

# Shape, dim and number of indices: along sticks, across them, in the middle, and of size 1.
CASES = [
    ((300,), 0, 70),
    ((7, 130), 1, 65),
    ((7, 130), 0, 9),
    ((3, 5, 70), 1, 9),
    ((2, 64, 3), 1, 200),
    ((40, 1), 1, 3),
    ((1, 40), 0, 3),
    ((1,), 0, 1),
    ((40, 30000), 1, 5),
]


def indices(shape, dim, count, modulus=None):
    """Return indices along a dim, with duplicates."""
    size = [*shape]
    size[dim] = count
    positions = torch.arange(torch.Size(size).numel()) * 7919
    return (positions % (modulus or shape[dim])).reshape(size)


@pytest.mark.parametrize(("shape", "dim", "count"), CASES, ids=str)
def test_gathers_agree_with_the_cpu(shape, dim, count):
    assert_close_to_cpu(
        lambda x, i: x.gather(dim, i), make_tensor(*shape), indices(shape, dim, count)
    )


@pytest.mark.parametrize(("shape", "dim", "count"), CASES, ids=str)
def test_scatters_agree_with_the_cpu(shape, dim, count):
    index = indices(shape, dim, count)

    def scatters(x, i, source):
        reduced = [x.scatter_reduce(dim, i, source, kind) for kind in ("amax", "amin")]
        return x.scatter_add(dim, i, source), *reduced

    assert_close_to_cpu(scatters, make_tensor(*shape), index, make_tensor(*index.shape), scale=4)


@pytest.mark.parametrize("kind", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_with_and_without_the_target(kind, include_self):
    def reduce(x, n, i, source, m):
        if kind == "mean":  # the CPU's mean of integers is rounded towards zero
            n, m = n.float(), m.float()
        return (
            x.scatter_reduce(1, i, source, kind, include_self=include_self),
            n.scatter_reduce(1, i, m, kind, include_self=include_self),
        )

    x, n = make_tensor(5, 70), make_tensor(5, 70, dtype=torch.int32)
    index = indices((5, 70), 1, 100, modulus=50)
    source, m = make_tensor(5, 100), make_tensor(5, 100, dtype=torch.int32)
    assert_close_to_cpu(reduce, x, n, index, source, m, units=8, scale=4)


def test_the_last_of_several_values_remains():
    index = torch.tensor([3, 1, 3, 3, 0, 1])
    values = torch.arange(6 * 70, dtype=torch.float32).reshape(6, 70)
    x = torch.zeros(5, 70)
    result = x.to("spyre").index_copy(0, index.to("spyre"), values.to("spyre")).cpu()
    assert torch.equal(result[[3, 1, 0]], values[[3, 5, 4]])
    assert torch.equal(result[[2, 4]], x[[2, 4]])


def test_sums_of_16_bit_floats_are_rounded_once():
    # 0.25 is lost if it is added to 512 in 16 bits.
    x = torch.full((4, 64), 512.0, dtype=torch.float16)
    source = torch.full((2000, 64), 0.25, dtype=torch.float16)
    index = torch.arange(2000) % 3
    result = x.to("spyre").index_add(0, index.to("spyre"), source.to("spyre")).cpu()
    expected = x.double().index_add(0, index, source.double()).half().to("spyre").cpu()
    assert torch.equal(result, expected)


def test_nan_and_infinities_reach_their_elements_only():
    x = torch.zeros(4, 64)
    source = torch.zeros(3, 64)
    source[0], source[1, 0], source[1, 1] = torch.nan, torch.inf, -torch.inf
    index = torch.tensor([2, 0, 0])

    def reductions(x, i, s):
        kinds = ("amax", "amin")
        i = i[:, None].expand_as(s)
        return x.index_add(0, i[:, 0], s), *(x.scatter_reduce(0, i, s, kind) for kind in kinds)

    assert_close_to_cpu(reductions, x, index, source)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.bfloat16, torch.float32], ids=str)
def test_other_dtypes_accumulate(dtype):
    x, source = make_tensor(9, 70, dtype=dtype), make_tensor(9, 90, dtype=dtype)
    index = indices((9, 70), 1, 90)
    for kind in (torch.int64, torch.int32):
        on_card = [x.to("spyre"), index.to(kind).to("spyre"), source.to("spyre")]
        if kind is torch.int64:
            assert_close_to_cpu(lambda x, i, s: x.scatter_add(1, i, s), x, index, source, scale=4)
        rows = torch.gather(on_card[0], 1, on_card[1].long())
        assert torch.equal(rows.cpu(), x.gather(1, index))


def test_integers_wrap():
    x = torch.full((3, 4), 100, dtype=torch.int8)
    index = torch.zeros(3, 2, dtype=torch.int64)
    source = torch.full((3, 2), 100, dtype=torch.int8)
    assert_close_to_cpu(lambda x, i, s: x.scatter_add(1, i, s), x, index, source)


@pytest.mark.parametrize("value", [-1, 130])
@pytest.mark.parametrize(
    "op",
    [
        lambda x, i: x.gather(1, i),
        lambda x, i: x.scatter_add(1, i, torch.ones_like(i, dtype=x.dtype)),
        lambda x, i: x.index_add(1, i[0], x[:, :5]),
    ],
    ids=["gather", "scatter_add", "index_add"],
)
def test_an_index_out_of_bounds_is_reported(op, value):
    index = torch.arange(5).repeat(7, 1)
    index[0, 3] = value
    x = make_tensor(7, 130).to("spyre")
    message = (
        f"index {value} is out of range for a dimension of size 130, at element 3 of the index"
    )
    with pytest.raises(IndexError, match=message):
        op(x, index.to("spyre"))
        torch.spyre.synchronize()


@pytest.mark.parametrize("op", ["indexedgather", "indexedadd"])
def test_it_is_one_program_on_all_cores(op, compiled_kernels):
    def function(x, i, source):
        return [x.gather(1, i)] if op == "indexedgather" else [x.scatter_add(1, i, source)]

    index = indices((64, 300), 1, 70)
    compiled_kernels.compile(function, make_tensor(64, 300), index, make_tensor(64, 70))
    assert compiled_kernels.ops == [[op]]
    assert [spec.cores for spec in compiled_kernels.specs] == [32]


@pytest.mark.parametrize("op", ["gather", "index_add"])
def test_device_time_grows_with_the_length_not_with_its_square(op):
    times = []
    for length in (1024, 8192):
        x = torch.ones(length, 64, dtype=torch.float16, device="spyre")
        index = (torch.arange(length) * 7919 % length).to("spyre")
        rows = index[:, None].expand(length, 64)
        torch.spyre.synchronize()
        before = torch.spyre.counters()["device_time_ps"]
        x.gather(0, rows) if op == "gather" else x.index_add(0, index, x)
        times.append(torch.spyre.counters()["device_time_ps"] - before)
    assert times[1] < 10 * times[0]


@pytest.fixture
def bundle(tmp_path, compiled_kernels):
    """Return a folder with the bundle of a gather from 64x300 elements."""
    x, index = make_tensor(64, 300), indices((64, 300), 1, 70)
    compiled_kernels.compile(lambda x, i: [x.gather(1, i)], x, index)
    generate_bundle("gather", tmp_path, compiled_kernels.specs)
    return tmp_path


def test_a_bundle_of_a_gather_computes_the_same(bundle):
    x, index = make_tensor(64, 300).to("spyre"), indices((64, 300), 1, 70).to("spyre")
    result = torch.empty(64, 70, dtype=torch.float16, device="spyre")
    Runner("gather", import_programs(str(bundle))).run(x, index, result)
    assert torch.equal(result.cpu(), x.gather(1, index).cpu())


def test_a_bundle_whose_table_is_the_result_is_rejected(bundle):
    path = bundle / "sdsc_0.json"
    content = json.loads(path.read_text())
    ((_, body),) = content.items()
    ((_, dsc),) = body["dscs_"][0].items()
    roles = dsc["torchSpyre_"]["opInfo"][ROLES_INFO]
    roles["column"], roles["scanned"] = roles["scanned"], roles["column"]
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="must have .* among outer"):
        import_programs(bundle)
