"""Sizes that change: right results at every one, one trace of the user's code, few compilations."""

import warnings

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from torch._dynamo.utils import counters

from torch_spyre import _C, knobs
from torch_spyre._inductor.specialization import Specializing
from torch_spyre.errors import FallbackError
from torch_spyre.ops import eager


def function(x):
    return (x.relu() + 1).sum(-1)


@pytest.fixture
def compilations(monkeypatch):
    """Sizes of the first argument, once for each time a graph is compiled for them."""
    torch._dynamo.reset()
    counters.clear()
    sizes = []
    compile_variant = Specializing._compile

    def counted(self, arguments):
        sizes.append(
            next(tuple(argument.shape) for argument in arguments if hasattr(argument, "shape"))
        )
        return compile_variant(self, arguments)

    monkeypatch.setattr(Specializing, "_compile", counted)
    yield sizes
    torch._dynamo.reset()


def traces():
    return counters["stats"]["unique_graphs"]


def test_one_trace_and_one_compilation_per_size(compilations):
    compiled = torch.compile(function, dynamic=True)
    for size in (5, 70, 5, 33, 70, 5):
        x = make_tensor(size, 40).to("spyre")
        assert_close(compiled(x), function(to_reference(x)), scale=8)
    assert traces() == 1
    assert compilations == [(5, 40), (70, 40), (33, 40)]


def test_graph_of_many_sizes_is_compiled_for_repeated_sizes(compilations):
    compiled = torch.compile(function, dynamic=True)
    first = [3, 4, 5, 6]
    for size in (*first, 7, 8, 9, 8, 8, 3):
        x = make_tensor(size, 40).to("spyre")
        assert_close(compiled(x), function(to_reference(x)), scale=8)
    assert compilations == [(size, 40) for size in (*first, 8)]


def test_allowed_fallbacks_are_the_same_at_every_size(compilations):
    """Run op by op, a graph may need fallbacks that its compiled form does not."""
    compiled = torch.compile(function, dynamic=True)
    eager.use_kernels(False)
    _C._set_fallback_policy("error")
    try:
        with knobs.override(TORCH_SPYRE_FALLBACK="error"):
            for size in (3, 4, 5, 6, 7, 8):
                x = make_tensor(size, 40)
                assert_close(compiled(x.to("spyre")), function(x.double()), scale=8)
    finally:
        _C._set_fallback_policy("warn")
        eager.use_kernels(True)
    assert compilations == [(size, 40) for size in (3, 4, 5, 6, 7, 8)]


def test_fallback_raises_at_every_size(compilations):
    compiled = torch.compile(lambda x: torch.special.bessel_j0(x) + 1, dynamic=True)
    for size in (3, 4, 5, 6):
        compiled(make_tensor(size, 40, dtype=torch.float32).to("spyre"))
    with (
        knobs.override(TORCH_SPYRE_FALLBACK="error"),
        pytest.raises(FallbackError, match="bessel_j0"),
    ):
        compiled(make_tensor(7, 40, dtype=torch.float32).to("spyre"))


def test_op_by_op_execution_mutates_inputs_and_views_as_compiled_code(compilations):
    def changing(x, cache):
        grown = torch.cat([cache, x.unsqueeze(0) * 2])
        x.add_(1)
        return grown, grown[-1], x.double().sum()

    compiled = torch.compile(changing, dynamic=True)
    cache = make_tensor(2, 40).to("spyre")
    expected_cache = to_reference(cache)
    for _ in range(8):
        x = make_tensor(40).to("spyre")
        expected = to_reference(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # float64 is on the CPU
            cache, last, total = compiled(x, cache)
        expected_cache, expected_last, expected_total = changing(expected, expected_cache)
        assert_close(cache, expected_cache)
        assert_close(last, expected_last)
        assert_close(x, expected)
        assert total.device.type == "cpu"
        assert last.data_ptr() != x.data_ptr()
        torch.testing.assert_close(total, expected_total, rtol=2**-8, atol=40 * 2**-8)
    assert len(compilations) == 4


@pytest.mark.parametrize("dynamic", [True, None])
def test_sizes_zero_and_one(dynamic, compilations):
    compiled = torch.compile(function, dynamic=dynamic)
    for size in (0, 1, 2, 1, 0, 3):
        x = make_tensor(size, 40).to("spyre")
        assert_close(compiled(x), function(to_reference(x)), scale=8)
    # Dynamo traces sizes 0 and 1 separately, and all other sizes together.
    assert traces() <= 4
    assert len(compilations) == len(set(compilations)) == 4


@pytest.mark.parametrize("bounds", [{"min": 64, "max": 1024}, {"min": 100, "max": 1024}, {}])
def test_marked_dims_have_one_trace_within_their_bounds(bounds, compilations):
    compiled = torch.compile(function)
    for size in (128, 1024, 321):
        x = make_tensor(size, 70).to("spyre")
        torch._dynamo.mark_dynamic(x, 0, **bounds)
        assert_close(compiled(x), function(to_reference(x)), scale=8)
    assert traces() == 1
    assert len(compilations) == 3


def test_dynamic_stick_dim(compilations):
    compiled = torch.compile(lambda x: x.softmax(-1))
    for size in (64, 65, 200):
        x = make_tensor(3, size).to("spyre")
        torch._dynamo.mark_dynamic(x, 1)
        assert_close(compiled(x), to_reference(x).softmax(-1))
    assert traces() == 1


def test_data_dependent_size_runs_op_by_op(caplog):
    def first(x, count):
        rows = count.item()
        torch._check(rows >= 0)
        torch._check(rows <= x.shape[0])
        return x[:rows] * 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(first, fullgraph=True)
        x = make_tensor(6, 70).to("spyre")
        for rows in (2, 5, 0):
            actual = compiled(x, torch.tensor(rows, device="spyre"))
            assert_close(actual, to_reference(x)[:rows] * 2)
    assert "op by op" in caplog.text and "a size that depends on data" in caplog.text


def test_nested_tensors_run_op_by_op(caplog):
    compiled = torch.compile(lambda x: (x * 2).relu() + 1)
    for lengths in ((3, 5), (2, 65)):
        rows = to_card(tuple(make_tensor(length, 70) for length in lengths))
        ragged = torch.nested.nested_tensor(list(rows), layout=torch.jagged)
        actual = compiled(ragged)
        for one, row in zip(actual.unbind(), rows, strict=True):
            assert_close(one, (to_reference(row) * 2).relu() + 1)
    assert caplog.text.count("ragged sizes") == 1
