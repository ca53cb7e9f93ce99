"""Sorts are one kernel, on one core for each row or on several."""

import json

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_spyre._inductor.multi_loop.roles import ROLES_INFO
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import generate_bundle, import_programs
from torch_spyre._inductor.work_division.sort_blocks import MAX_BLOCK, block_size, num_blocks
from torch_spyre.errors import BundleError, InvalidOpSpecError

pytestmark = pytest.mark.usefixtures("no_fallbacks", "kernels")

# Rows of one core; of several cores, whose last blocks are full, not full, and empty; columns; and
# columns of whole sticks.
SHAPES = [
    ((7, 130), 1),
    ((4096,), 0),
    ((3, 5000), 1),
    ((2, 33000), 1),
    ((130, 7), 0),
    ((3, 50, 70), 1),
    ((33, 20, 128), 1),
]
DTYPES = (torch.float32, torch.int16, torch.uint8)


def repeated(shape, dtype):
    """Return a tensor with many equal elements."""
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_sorts_and_first_elements_agree_with_the_cpu(shape, dim):
    def orders(x):
        ascending = torch.sort(x, dim=dim, stable=True)
        descending = torch.sort(x, dim=dim, stable=True, descending=True)
        return ascending, descending, x.topk(5, dim).values, x.kthvalue(3, dim).values

    assert_close_to_cpu(orders, repeated(shape, torch.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_on_several_cores(dtype):
    x = repeated((2, 5000), dtype)
    actual = torch.sort(x.to("spyre"), stable=True, descending=True)
    expected = torch.sort(x, stable=True, descending=True)
    assert torch.equal(actual.values.cpu(), expected.values)
    assert torch.equal(actual.indices.cpu(), expected.indices)


def test_nan_and_infinities_on_several_cores():
    x = make_tensor(5000, dtype=torch.float32)
    x[[3, 4000]], x[7], x[70], x[200:300] = torch.nan, torch.inf, -torch.inf, -0.0
    x[250] = 0.0
    assert_close_to_cpu(lambda x: (x.sort(stable=True), x.topk(5).values, x.kthvalue(99).values), x)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 64, 65]), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.int32, torch.bool]),
    st.data(),
)
def test_orders_of_permuted_tensors(shape, descending, dtype, data):
    dims = data.draw(st.permutations(range(len(shape))))
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = repeated(tuple(shape), torch.float32).remainder(7).to(dtype).permute(dims)
    k = data.draw(st.integers(0, x.shape[dim]))
    card = x.to("spyre")
    actual = torch.sort(card, dim=dim, stable=True, descending=descending)
    expected = torch.sort(x, dim=dim, stable=True, descending=descending)
    assert torch.equal(actual.values.cpu(), expected.values)
    assert torch.equal(actual.indices.cpu(), expected.indices)
    if dtype is not torch.bool:
        first = card.topk(k, dim, largest=descending).values
        assert torch.equal(first.cpu(), expected.values.narrow(dim, 0, k))


def test_a_sort_is_one_program(compiled_kernels):
    compiled_kernels.compile(lambda x: [*x.sort(1)], make_tensor(64, 300))
    assert compiled_kernels.ops == [["sortvalues", "sortindices"]]
    assert [spec.cores for spec in compiled_kernels.specs] == [32, 32]


@pytest.mark.parametrize(
    ("function", "length"),
    [(torch.sort, 20000), (lambda x: x.topk(50), 49152)],
    ids=["sort", "topk"],
)
def test_few_long_rows_are_divided_over_cores(function, length, compiled_kernels):
    compiled_kernels.compile(lambda x: [*function(x)], make_tensor(2, length))
    assert max(spec.cores for spec in compiled_kernels.specs) == 32


def test_first_elements_of_many_long_rows_are_streamed(compiled_kernels):
    x = torch.arange(64 * 70000, dtype=torch.float32).remainder(70001).reshape(64, 70000)
    values, indices = compiled_kernels.compile(lambda x: [*x.topk(4)], x)
    expected = x.topk(4)
    assert torch.equal(values.cpu(), expected.values)
    assert torch.equal(indices.cpu(), expected.indices)
    assert compiled_kernels.ops == [["sortvalues", "sortindices"]]


@pytest.mark.heavy
def test_rows_that_no_scratchpads_hold():
    x = torch.randperm(1_100_000).to(torch.float32)
    actual = x.to("spyre").sort()
    assert torch.equal(actual.values.cpu(), torch.arange(1_100_000.0))
    assert torch.equal(x[actual.indices.cpu()], actual.values.cpu())


def test_gradients():
    def gradients(x):
        x = x.detach().requires_grad_()
        (x.sort(1).values * torch.arange(40.0, device=x.device)).sum().backward()
        first = x.grad.clone()
        (x.topk(3).values.sum() + x.median(1).values.sum()).backward()
        return first, x.grad

    x = torch.randperm(200).reshape(5, 40).to(torch.float32)
    for actual, expected in zip(gradients(x.to("spyre")), gradients(x), strict=True):
        assert torch.equal(actual.cpu(), expected)


def test_results_are_written_to_out():
    x = repeated((4, 30), torch.float32)
    for out_shape in ((4, 30), (0,)):
        values = torch.empty(out_shape, device="spyre")
        indices = torch.empty(out_shape, dtype=torch.int64, device="spyre")
        torch.sort(x.to("spyre"), dim=1, stable=True, out=(values, indices))
        expected = torch.sort(x, dim=1, stable=True)
        assert torch.equal(values.cpu(), expected.values)
        assert torch.equal(indices.cpu(), expected.indices)


def test_sampling_from_a_large_vocabulary():
    def top_p(logits):
        values, order = torch.sort(logits, descending=True)
        removed = values.softmax(-1).cumsum(-1) > 0.9
        return logits.masked_fill(removed.scatter(1, order, removed), -torch.inf)

    logits = torch.randperm(150000).to(torch.float32).reshape(1, -1) / 10000
    # Sums in another order remove another element at the edge.
    actual, expected = top_p(logits.to("spyre")).cpu(), top_p(logits)
    assert (actual != expected).sum() <= 2


@pytest.mark.parametrize("kept", [50, None], ids=["some", "all"])
@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize("length", [100, 4096, 5000, 150000, 1 << 20])
def test_blocks_hold_the_row_and_fit(length, rows, kept):
    blocks = num_blocks(rows, length, length if kept is None else kept, 32)
    assert blocks * block_size(length, blocks) >= length
    assert blocks == 1 or block_size(length, blocks) <= MAX_BLOCK
    if kept is None:
        assert blocks <= 32


@pytest.mark.parametrize("shape", [(64, 128), (2, 8192)], ids=str)
def test_a_bundle_can_be_read_back_and_run(shape, compiled_kernels, tmp_path):
    x = make_tensor(*shape).to("spyre")
    compiled_kernels.compile(lambda x: [*x.sort(1)], x)
    generate_bundle("sort", tmp_path, compiled_kernels.specs)
    values, indices = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    Runner("sort", import_programs(str(tmp_path))).run(x, values, indices)
    assert torch.equal(values.cpu(), x.cpu().sort(1).values)
    assert torch.equal(x.cpu().gather(1, indices.cpu()), values.cpu())


def test_a_bundle_with_a_result_longer_than_a_row_is_rejected(compiled_kernels, tmp_path):
    compiled_kernels.compile(lambda x: [*x.topk(4)], make_tensor(64, 300))
    generate_bundle("sort", tmp_path, compiled_kernels.specs)
    path = tmp_path / "sdsc_0.json"
    content = json.loads(path.read_text())
    ((_, body),) = content.items()
    ((_, dsc),) = body["dscs_"][0].items()
    roles = dsc["torchSpyre_"]["opInfo"][ROLES_INFO]
    roles["column"], roles["sorted"] = roles["sorted"], roles["column"]
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="must not be longer than a row"):
        import_programs(tmp_path)


def test_blocks_of_different_sizes_have_no_bundle(compiled_kernels, tmp_path):
    compiled_kernels.compile(lambda x: [*x.sort(1)], make_tensor(3, 5000))
    with pytest.raises(InvalidOpSpecError, match="not whole sticks"):
        generate_bundle("sort", tmp_path, compiled_kernels.specs)
