"""Tests of launches whose cores must run in order because they conflict in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from torch_spyre import ktir
from torch_spyre.backend import execution
from torch_spyre.backend.arrays import copy_to_card
from torch_spyre.backend.program.bounded_cache import MAX_ENTRIES
from torch_spyre.backend.program.instructions import ElementType

CORES = 16
LINE = 64
# Core k writes row k + 1 of the second array: row k of the first, plus 1.
FOLLOW = f"""
#row = affine_set<(i, j) : (i == 0, j >= 0, -j + {LINE - 1} >= 0)>
func.func @follow(%from: index, %to: index) attributes {{grid = [{CORES}]}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant dense<1.0> : tensor<1x{LINE}xf32>
  %me = ktdp.get_compute_tile_id : index
  %source = ktdp.construct_memory_view %from, sizes: [{CORES + 1}, {LINE}], strides: [{LINE}, 1]
    {{memory_space = #ktdp.memory_space<global>}} : memref<{CORES + 1}x{LINE}xf32>
  %target = ktdp.construct_memory_view %to, sizes: [{CORES + 1}, {LINE}], strides: [{LINE}, 1]
    {{memory_space = #ktdp.memory_space<global>}} : memref<{CORES + 1}x{LINE}xf32>
  %read = ktdp.construct_access_tile %source[%me, %zero] {{access_tile_set = #row}}
    : memref<{CORES + 1}x{LINE}xf32> -> !ktdp.access_tile<1x{LINE}xindex>
  %write = ktdp.construct_access_tile %target[%me + 1, %zero] {{access_tile_set = #row}}
    : memref<{CORES + 1}x{LINE}xf32> -> !ktdp.access_tile<1x{LINE}xindex>
  %x = ktdp.load %read : <1x{LINE}xindex> -> tensor<1x{LINE}xf32>
  %y = arith.addf %x, %one : tensor<1x{LINE}xf32>
  ktdp.store %y, %write : tensor<1x{LINE}xf32>, <1x{LINE}xindex>
  return
}}
"""


def zeros(name):
    return copy_to_card(name, ElementType.F32, np.zeros((CORES + 1, LINE), np.float32))


@pytest.fixture
def orders(monkeypatch):
    """Record the argument `ordered` of each launch."""
    orders = []
    launch = execution.launch

    def recording_launch(*arguments, ordered, **named):
        orders.append(ordered)
        launch(*arguments, ordered=ordered, **named)

    monkeypatch.setattr(execution, "launch", recording_launch)
    return orders


def test_cores_that_conflict_through_aliased_arguments_run_in_order(orders):
    program = ktir.load(FOLLOW).compile("follow")
    separate, aliased = [zeros("from"), zeros("to")], zeros("both")
    # One program in either order: the result for one launch does not apply to the other.
    for _ in range(2):
        execution.execute(program, separate, [])
        execution.execute(program, [aliased, aliased], [])
    torch.spyre.synchronize()
    assert orders == [False, True] * 2
    np.testing.assert_array_equal(separate[1].to_numpy()[1:], np.ones((CORES, LINE)))
    np.testing.assert_array_equal(aliased.to_numpy()[:, 0], np.arange(CORES + 1))


def test_arguments_of_one_storage_are_one_memory(orders):
    """Another tensor aliases the same bytes."""
    program = ktir.load(FOLLOW).compile("follow")
    shared = zeros("from")
    alias = replace(shared, name="to", memory=shared.memory.view(-1, LINE))
    execution.execute(program, [shared, alias], [])
    torch.spyre.synchronize()
    assert orders == [True]
    np.testing.assert_array_equal(shared.to_numpy()[:, 0], np.arange(CORES + 1))


SCALED = """
#all = affine_set<(i) : (i >= 0, -i + 7 >= 0)>
func.func @scaled(%to: index, %n: index) {
  %zero = arith.constant 0 : index
  %i = arith.index_cast %n : index to i32
  %y = tensor.splat %i : tensor<8xi32>
  %target = ktdp.construct_memory_view %to, sizes: [8], strides: [1]
    {memory_space = #ktdp.memory_space<global>} : memref<8xi32>
  %write = ktdp.construct_access_tile %target[%zero] {access_tile_set = #all}
    : memref<8xi32> -> !ktdp.access_tile<8xindex>
  ktdp.store %y, %write : tensor<8xi32>, <8xindex>
  return
}
"""


def test_timings_of_changing_scalars_are_evicted():
    module = ktir.load(SCALED)
    to = np.zeros(8, np.int32)
    for n in range(MAX_ENTRIES + 20):
        assert module.run("scaled", to=to, n=n)["to"][0] == n
    (program,) = module.programs.values()
    assert len(program.timings) <= MAX_ENTRIES
    for n in range(MAX_ENTRIES + 20):
        module.compile("scaled", n=n)
    assert len(module.programs) <= MAX_ENTRIES
    # An evicted entry is computed again.
    assert module.compile("scaled", n=0) == ktir.load(SCALED).compile("scaled", n=0)
