"""Tests of kernels of OpSpecs that are written by hand."""

import logging
from dataclasses import replace

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from division_specs import C, column_sum, pointwise, with_splits

from torch_spyre._inductor.async_compile import SpyreAsyncCompile
from torch_spyre._inductor.op_spec import LoopSpec, UnimplementedOp, sympify
from torch_spyre.errors import InvalidOpSpecError


def with_locations(spec, *locations):
    """Return the spec with an argument index or an allocation for each tensor."""
    args = [
        replace(arg, arg_index=location, allocation={"hbm": 0})
        if isinstance(location, int)
        else replace(arg, arg_index=-1, allocation=location, name=None)
        for arg, location in zip(spec.args, locations, strict=True)
    ]
    return replace(spec, args=args)


def kernel(*specs):
    return SpyreAsyncCompile().sdsc("by_hand", specs)


def test_a_single_op_runs():
    x, result = to_card((make_tensor(8, 130), make_tensor(8, 130)))
    kernel(with_locations(with_splits(pointwise("neg", 8, 130), {C[0]: 4}), 0, 1)).run(x, result)
    assert torch.equal(result.cpu(), -x.cpu())


def test_scratchpad_tensors_are_linked_by_address():
    x, result = to_card((make_tensor(8, 128), make_tensor(8, 128)))
    specs = [
        with_locations(pointwise("exp", 8, 128), 0, {"lx": 256}),
        with_locations(pointwise("neg", 8, 128), {"lx": 256}, {"lx": 8192}),
        with_locations(pointwise("abs", 8, 128), {"lx": 8192}, 1),
    ]
    kernel(*specs).run(x, result)
    assert_close(result, to_reference(x).exp())


def test_ops_run_one_after_the_other():
    x, middle, result = to_card((make_tensor(64, 128), make_tensor(64, 128), make_tensor(128)))
    specs = [
        with_locations(pointwise("abs", 64, 128), 0, 1),
        with_locations(column_sum(64, 128), 1, 2),
    ]
    kernel(*specs).run(x, middle, result)
    assert_close(result, to_reference(x).abs().sum(0), units=16)


def test_loops_are_unrolled():
    x, result = to_card((make_tensor(64, 128), make_tensor(64, 128)))
    whole = pointwise("neg", 64, 128)
    space = {C[0]: (sympify("16"), 1), C[1]: (sympify("128"), 1)}
    body = replace(with_locations(whole, 0, 1), iteration_space=space, tiled_symbols=[C[0]])
    kernel(LoopSpec(sympify("4"), [body], [C[0]])).run(x, result)
    assert torch.equal(result.cpu(), -x.cpu())


@pytest.mark.parametrize(
    "specs",
    [
        [UnimplementedOp("welford")],
        [pointwise("neg", 8, 64), LoopSpec(sympify("2"), [UnimplementedOp("welford")])],
    ],
    ids=["top level", "in a loop"],
)
def test_an_unimplemented_op_is_an_error_at_run_time(specs, caplog):
    with caplog.at_level(logging.WARNING):
        runner = kernel(*specs)
    assert "by_hand contains unimplemented operation welford" in caplog.text
    with pytest.raises(
        RuntimeError, match="Invoked by_hand which contains unimplemented operation welford"
    ):
        runner.run(make_tensor(8, 64).to("spyre"))


def test_an_invalid_op_spec_is_rejected():
    spec = pointwise("neg", 8, 64)
    with pytest.raises(InvalidOpSpecError, match="neg: c0 is divided over 0 cores"):
        kernel(with_splits(spec, {C[0]: 0}))
