"""Tests of reductions that are split over cores and combined over the ring."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_spyre import knobs
from torch_spyre._inductor.kernel_parameters import kernel_parameters
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime import runner
from torch_spyre._inductor.runtime.programs import compile_stage
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.to_ktir.cross_core_reduction import CoreGroups
from torch_spyre._inductor.work_division import Digit
from torch_spyre.backend.execution import has_conflicts, timing_of
from torch_spyre.ktir.affine import contains, points

FP16_EPS = 2.0**-9


@pytest.fixture
def stages(monkeypatch):
    """Return a list that collects (specs, program) of all compiled kernels."""
    compiled_stages = []
    original = runner.program_for

    def spy(name, specs):
        program = original(name, specs)
        compiled_stages.append((specs, program))
        return program

    monkeypatch.setattr(runner, "program_for", spy)
    return compiled_stages


def compiled(function):
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        return torch.compile(function)


def check(function, *inputs, tolerance, run=None):
    """Compare a function on the card with float64 on the CPU, for the same rounded inputs."""
    on_card = [tensor.to("spyre") for tensor in inputs]
    exact = [tensor.cpu() for tensor in on_card]
    exact = [tensor.double() if tensor.dtype.is_floating_point else tensor for tensor in exact]
    with torch._inductor.config.patch(force_disable_caches=True):
        actual = (run or function)(*on_card).cpu()
    expected = function(*exact).double()
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance / 10)


def uniform(*shape, dtype=torch.float16):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def splits(specs):
    """Return the number of cores, and how many of them combine one reduction."""
    space = IterationSpace.from_specs(specs)
    symbol = space.cross_core_reduction
    return space.cores, 1 if symbol is None else space.splits[symbol]


REDUCTIONS = {
    "sum": (lambda x: x.sum(-1), uniform(3, 4096), FP16_EPS),
    "sum_f32": (lambda x: x.sum(-1), uniform(3, 4096, dtype=torch.float32), 1e-6),
    "mean": (lambda x: x.mean(-1), uniform(3, 4096), FP16_EPS),
    "max": (lambda x: x.amax(-1), uniform(3, 4096) - 2, 0),
    "min": (lambda x: x.amin(-1), uniform(3, 4096), 0),
    "prod": (lambda x: x.prod(-1), 1 + uniform(3, 4096, dtype=torch.float32) / 1e3, 1e-5),
    "integers": (lambda x: x.sum(-1), torch.arange(3 * 4096).reshape(3, 4096), 0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_fewer_rows_than_cores_are_split(name, stages):
    function, x, tolerance = REDUCTIONS[name]
    check(function, x, tolerance=tolerance)
    ((specs, _),) = stages
    assert splits(specs) == (24, 8)


def test_a_reduction_of_a_dim_that_is_not_the_stick_is_split(stages):
    check(lambda x: x.sum(0), uniform(4096, 64), tolerance=FP16_EPS)
    ((specs, _),) = stages
    assert splits(specs) == (32, 32)


def test_a_reduction_over_two_dims_is_split_along_one(stages):
    check(lambda x: x.sum(), uniform(64, 1024), tolerance=FP16_EPS)
    check(lambda x: x.sum((0, 2)), uniform(8, 2, 4096), tolerance=FP16_EPS)
    assert [splits(specs) for specs, _ in stages] == [(32, 32), (32, 16)]


def test_a_split_max_propagates_nan():
    x = uniform(3, 4096, dtype=torch.float32)
    x[1, 3000] = float("nan")
    actual = x.to("spyre").amax(-1).cpu()
    torch.testing.assert_close(actual, x.amax(-1), rtol=0, atol=0, equal_nan=True)


MATMUL_SHAPES = [((8, 1024), (1024, 1024)), ((1, 4096), (4096, 64)), ((2, 8, 1024), (2, 1024, 64))]


@pytest.mark.parametrize("k_fast", ["0", "1"])
@pytest.mark.parametrize("shapes", MATMUL_SHAPES)
def test_matmuls_split_along_k(shapes, k_fast, stages):
    left, right = (uniform(*shape) for shape in shapes)
    with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION=k_fast):
        check(torch.matmul, left, right, tolerance=FP16_EPS, run=compiled(torch.matmul))
    ((specs, _),) = stages
    assert splits(specs)[1] > 1


def test_pointwise_ops_around_a_split_reduction_are_fused(stages):
    def norm(x):
        return torch.rsqrt((x * x).mean(-1) + 1e-3)

    check(norm, uniform(3, 4096), tolerance=2 * FP16_EPS, run=compiled(norm))
    ((specs, _),) = stages
    assert len(specs) > 2
    assert splits(specs) == (24, 8)


def test_a_split_matmul_with_a_bias(stages):
    def layer(x, weight, bias):
        return torch.relu(x @ weight - bias)

    inputs = uniform(8, 1024), uniform(1024, 1024), 64 * uniform(1024)
    check(layer, *inputs, tolerance=2 * FP16_EPS, run=compiled(layer))
    assert any(splits(specs)[1] > 1 for specs, _ in stages)


@pytest.mark.parametrize("size", [40, 72, 100, 1000])
def test_padding_of_the_last_stick_is_not_reduced(size):
    """The reduced values depend on a row that lies along sticks, unlike the result."""
    x = torch.randn(3, size)
    run = compiled(lambda x: (x > x[0] * 2).sum(1) + x[0, :3])
    expected = (x > x[0] * 2).sum(1) + x[0, :3]
    torch.testing.assert_close(run(x.to("spyre")).cpu(), expected)


def test_a_streamed_row_is_split_over_all_cores(stages):
    x = uniform(1, 1 << 20, dtype=torch.float32)
    check(lambda x: x.sum(-1), x, tolerance=1e-6)
    ((specs, _),) = stages
    assert splits(specs) == (32, 32)


def test_cores_combine_once_per_tile(stages):
    check(lambda x: x.sum(0), uniform(256, 64 * 1009), tolerance=FP16_EPS)
    ((specs, _),) = stages
    assert splits(specs) == (32, 32)
    lines = str(compile_stage("tiles", specs).module).splitlines()
    loop = next(index for index, line in enumerate(lines) if "scf.for" in line)
    assert any("ktdp.inter_tile_reduce" in line for line in lines[loop:])


def test_resident_inputs_are_loaded_before_streamed_ones():
    """The scale of a row is used again in the last, smaller tile, and after it."""

    def scaled(x, scale):
        return (x * scale).sum(-1) + scale[:, 0]

    x, scale = uniform(3, 500_032, dtype=torch.float32), uniform(3, 1, dtype=torch.float32)
    check(scaled, x, scale, tolerance=1e-5, run=compiled(scaled))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x, -1),  # reads the whole row again
        lambda x: x.argmax(-1).to(torch.float32),
    ],
    ids=["softmax", "argmax"],
)
def test_other_reductions_are_not_split(function, stages):
    x = uniform(3, 5, 512, dtype=torch.float32)
    check(function, x, tolerance=1e-5, run=compiled(function))
    assert all(splits(specs)[1] == 1 for specs, _ in stages)


def test_ring_transfers_are_timed_and_writes_do_not_conflict(stages):
    check(lambda x: x.sum(-1), uniform(5, 2048), tolerance=FP16_EPS)
    ((specs, program),) = stages
    array_bytes = [parameter.num_bytes for parameter in kernel_parameters(specs)]
    timing = timing_of(program, array_bytes, [])
    assert splits(specs)[1] > 1
    assert timing.ring_byte_hops > 0
    assert timing.ring_exposed_ps > 0
    assert not has_conflicts(program, array_bytes)


def test_the_module_passes_strict_verification(stages):
    check(lambda x: x.sum(-1), uniform(3, 8192), tolerance=FP16_EPS)
    ((specs, _),) = stages
    assert all(isinstance(spec, OpSpec) for spec in specs)
    module = compile_stage("split_sum", specs).module
    module.verify(strict=True)
    assert str(module).count("ktdp.inter_tile_reduce") == 1


@given(stride=st.integers(1, 8), split=st.integers(2, 8), outer=st.integers(1, 8), symbol=st.none())
def test_groups_have_the_cores_that_differ_in_one_digit(stride, split, outer, symbol):
    cores = stride * split * outer
    digit = Digit(symbol, stride, split)
    core_groups = CoreGroups(digit, cores)
    all_cores = torch.arange(cores)[:, None].numpy()
    grouped = []
    for (group,) in points(core_groups.groups).tolist():
        members = contains(core_groups.members, all_cores, [group]).nonzero()[0].tolist()
        first = contains(core_groups.first_members, all_cores, [group]).nonzero()[0].tolist()
        assert [digit.slice_of(core) for core in members] == list(range(split))
        assert len({core - digit.slice_of(core) * stride for core in members}) == 1
        assert first == members[:1] == [group]
        grouped += members
    assert sorted(grouped) == list(range(cores))
