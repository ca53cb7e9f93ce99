"""The timing record of compiled programs: patterns, kinds of matmul, splits, tiles and rereads."""

import pytest
import torch

from torch_spyre import knobs
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.backend import execution
from torch_spyre.timing import TileLoop
from torch_spyre.timing.estimate import estimate


@pytest.fixture
def records_of(kernels, monkeypatch):
    """Return a function that returns the records of the programs that a call compiles."""
    records = []

    def recorded(record, card):
        records.append(record)
        return estimate(record, card)

    monkeypatch.setattr(execution, "estimate", recorded)

    def compile_call(function, *shapes, dtype=torch.float16, layout=None):
        arguments = [
            torch.empty(shape, dtype=dtype, device="spyre", device_layout=layout)
            for shape in shapes
        ]
        torch._dynamo.reset()
        records.clear()
        with knobs.override(SPYRE_EMU_MODE="timing"), torch.no_grad():
            torch.compile(function)(*arguments)
        return list(records)

    return compile_call


def patterns(records):
    return {step.ddr_pattern for record in records for step in record.steps if step.ddr}


def pattern(records):
    """Return kind, rows, columns and outer dim of the only pattern."""
    (only,) = patterns(records)
    assert only is not None
    return only.kind, only.rows, only.columns, only.outer


def matmul(records):
    (work,) = [work for record in records for step in record.steps for work in step.pt]
    return work


def test_rows_that_move_to_planes_of_another_height_are_a_concatenation(records_of):
    records = records_of(lambda x, y: torch.cat([x, y]), (512, 1024), (256, 1024))
    assert [len(record.steps) for record in records] == [2, 2]
    assert pattern(records) == ("cat_outer", 768, 1024, None)


def test_a_concatenation_of_columns_moves_whole_planes(records_of):
    records = records_of(lambda x, y: torch.cat([x, y], 1), (512, 1024), (512, 512))
    assert patterns(records) == {None}


def test_a_copy_has_no_pattern(records_of):
    assert patterns(records_of(lambda x: x * 1.5, (512, 1024))) == {None}
    assert patterns(records_of(torch.clone, (512, 1024))) == {None}


def test_a_transpose_is_a_restickify_of_load_and_store(records_of):
    records = records_of(lambda x: x.t().contiguous(), (512, 1024))
    assert pattern(records) == ("restickify", None, None, None)


def test_only_the_operand_with_other_sticks_is_restickified(records_of):
    (record,) = records_of(lambda x, y: x + y.t(), (512, 1024), (1024, 512))
    kinds = [step.ddr_pattern and step.ddr_pattern.kind for step in record.steps if step.ddr]
    assert sorted(kinds, key=str) == [None, None, "restickify"]


def test_a_right_operand_with_sticks_along_the_inner_dim_is_restickified(records_of):
    def kinds(function):
        return {
            pattern.kind
            for pattern in patterns(records_of(function, (512, 512), (512, 512)))
            if pattern is not None
        }

    assert kinds(torch.mm) == set()
    assert kinds(lambda x, y: x @ y.t()) == {"restickify"}


def test_a_permutation_of_whole_sticks_names_its_outer_dim(records_of):
    records = records_of(lambda x: x.permute(1, 0, 2).contiguous(), (4, 512, 256))
    assert pattern(records) == ("transpose_outer", 512, 256, 4)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 2048), ("row_broadcast", 1024, 2048, None)),
        ((2048,), ("row_broadcast", 1024, 2048, None)),
        ((1024, 1), ("column_broadcast", 1024, 2048, None)),
        ((1, 1), ("column_broadcast", 1024, 2048, None)),
    ],
)
def test_an_operand_that_is_broadcast_gives_the_pattern(records_of, shape, expected):
    assert pattern(records_of(torch.add, (1024, 2048), shape)) == expected


def test_a_broadcast_within_a_norm_has_no_pattern(records_of):
    def norm(x, weight):
        return torch.nn.functional.layer_norm(x, (1024,), weight)

    assert patterns(records_of(norm, (512, 1024), (1024,))) == {None}


def test_a_reduction_along_sticks_has_the_rate_of_its_rows(records_of):
    records = records_of(lambda x: x.sum(-1), (1024, 512))
    assert pattern(records) == ("row_reduction", 1024, None, None)


def test_a_reduction_across_rows_has_its_own_rate(records_of):
    records = records_of(lambda x: x.amax(0), (1024, 2048))
    assert pattern(records) == ("cross_row_reduction", None, None, None)


def test_a_reduction_of_a_computed_tensor_has_no_pattern(records_of):
    assert patterns(records_of(lambda x: x.exp().sum(-1), (1024, 512))) == {None}


def test_a_matmul_has_rows_columns_and_splits_of_the_whole(records_of):
    work = matmul(records_of(torch.mm, (2048, 1024), (1024, 4096)))
    assert work.kind == "matmul"
    assert work.rows * work.row_splits == 2048
    assert work.columns * work.column_splits == 4096
    assert work.row_splits * work.column_splits == 32


def test_batches_that_alternate_stick_by_stick_have_the_lower_rate(records_of):
    work = matmul(records_of(torch.bmm, (8, 256, 256), (8, 256, 256)))
    assert (work.kind, work.batch) == ("batched", 8)


def test_matrices_that_follow_each_other_in_memory_have_the_full_rate(records_of):
    size = (8, 256, 256)
    layout = SpyreTensorLayout(size, (256 * 256, 256, 1), torch.float16, [1, 0, 2])
    work = matmul(records_of(torch.bmm, size, size, layout=layout))
    assert (work.kind, work.batch) == ("matmul", 8)


def test_a_batch_that_shares_one_matrix_is_a_projection(records_of):
    work = matmul(records_of(lambda x, w: x @ w, (4, 256, 256), (256, 256)))
    assert (work.kind, work.batch) == ("projection", 4)


def test_tiles_of_a_matmul_that_are_read_again_are_cheaper(records_of):
    (record,) = records_of(torch.mm, (2048, 2048), (2048, 2048))
    reads = [move for step in record.steps for move in step.ddr if move.direction == "read"]
    once = 2 * 2048 * 2048
    assert sum(move.distinct_bytes - move.reread_bytes for move in reads) == 2 * once


def test_a_loop_over_tiles_names_the_tile(records_of):
    (record,) = records_of(torch.neg, (4096, 4096))
    (loop,) = [step.tile_loop for step in record.steps if step.tile_loop]
    assert isinstance(loop, TileLoop)
    per_core = 4096 * 4096 // 32
    assert per_core % (loop.rows * loop.columns) == 0
    (record,) = records_of(torch.neg, (64, 64))
    assert all(step.tile_loop is None for step in record.steps)


def test_a_multicast_occupies_the_ring_without_adding_time(records_of):
    (record,) = records_of(torch.mm, (1024, 1024), (1024, 1024))
    shared = [step for step in record.steps if any(move.multicast for move in step.ddr)]
    assert len(shared) == 2
    assert all(item.byte_hops > 0 and not item.exposed for step in shared for item in step.ring)


def test_partial_sums_of_a_split_inner_dim_pass_the_cores_of_their_group(records_of):
    (record,) = records_of(torch.mm, (32, 4096), (4096, 4096))
    (work,) = [work for step in record.steps for work in step.pt]
    (ring,) = [item for step in record.steps for item in step.ring if item.exposed]
    inner_splits = 32 // (work.row_splits * work.column_splits)
    assert inner_splits > 1
    # Partial sums in float32: one tile to the next core, for each split but the first.
    assert ring.hops == inner_splits - 1
    assert ring.busiest_link_bytes == (inner_splits - 1) * 4 * work.rows * work.columns


def test_programs_fit_the_usable_part_of_the_scratchpad(records_of):
    (record,) = records_of(torch.add, (8192, 8192), (8192, 8192))
    assert 0 < record.lx_peak_bytes <= 1_625_344 // 2
