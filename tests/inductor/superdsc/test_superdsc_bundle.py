"""Tests of the files of a bundle, and of the text of `bundle.mlir`."""

import dataclasses
import json
import re

import pytest
from op_spec_samples import (
    MATRIX,
    add_128_256,
    matmul,
    op,
    row_slice,
    softmax_chain,
    tensor,
    tiled_rows,
)

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import LoopSpec, UnimplementedOp, sympify
from torch_spyre._inductor.superdsc import (
    assign_argument_addresses,
    generate_bundle,
    import_bundle,
    unroll_loop_specs,
    with_argument_addresses,
)
from torch_spyre._inductor.superdsc.segments import ARGUMENT_SEGMENTS, SEGMENT_BYTES
from torch_spyre.cards import load_card
from torch_spyre.errors import InvalidOpSpecError


def write_bundle(folder, specs, **options):
    """Write a bundle; return the text of `bundle.mlir` and the content of the JSON files."""
    generate_bundle("kernel", folder, specs, **options)
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("sdsc_*.json"))]
    return (folder / "bundle.mlir").read_text(), files


def nodes(file):
    ((_, body),) = file.items()
    ((_, dsc),) = body["dscs_"][0].items()
    return dsc["scheduleTree_"]


def start(file, position, core=0):
    return nodes(file)[position]["startAddressCoreCorelet_"]["data_"][f"[{core}, 0, 0]"]


FIXED = {"unroll_loops": True, "symbolic_args": False}
SYMBOLIC = {"unroll_loops": True, "symbolic_args": True}
LOOPED = {"unroll_loops": False, "symbolic_args": True}


def test_each_op_has_one_file_and_one_execution(tmp_path):
    text, files = write_bundle(tmp_path, softmax_chain(), **FIXED)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bundle.mlir",
        *(f"sdsc_{i}.json" for i in range(5)),
    ]
    assert text.count("sdsc_execute") == 5
    assert [next(iter(file)) for file in files] == ["0_max", "1_sub", "2_exp", "3_sum", "4_realdiv"]


def test_files_are_indented_by_two(tmp_path):
    write_bundle(tmp_path, [add_128_256()], **FIXED)
    assert (
        (tmp_path / "sdsc_0.json").read_text().startswith('{\n  "0_add": {\n    "sdscFoldProps_"')
    )


def test_a_kernel_without_ops_is_an_empty_bundle(tmp_path):
    text, files = write_bundle(tmp_path, [], **FIXED)
    assert text == "module {\n\tfunc.func @sdsc_bundle() {\n\t\treturn\n\t}\n}\n"
    assert files == []


def test_stale_files_are_deleted(tmp_path):
    write_bundle(tmp_path, softmax_chain(), **FIXED)
    generate_bundle("kernel", tmp_path, [add_128_256()], **FIXED)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.mlir", "sdsc_0.json"]
    assert [spec.op for spec in import_bundle(tmp_path)] == ["add"]


def test_fixed_addresses_have_no_operands(tmp_path):
    text, _ = write_bundle(tmp_path, [add_128_256()], **FIXED)
    assert text == (
        "module {\n\tfunc.func @sdsc_bundle() {\n"
        '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}\n'
        "\t\treturn\n\t}\n}\n"
    )


def test_knobs_select_loops_and_symbolic_addresses(tmp_path):
    with knobs.override(BUNDLE_SYMBOLIC_ARGS="0", UNROLL_LOOPS="1"):
        text, files = write_bundle(tmp_path / "fixed", [tiled_rows()])
        assert "symbol_ids" not in text
        assert len(files) == 4
    with knobs.override(BUNDLE_SYMBOLIC_ARGS="1", UNROLL_LOOPS="0"):
        text, files = write_bundle(tmp_path / "looped", [tiled_rows()])
        assert "scf.for" in text
        assert len(files) == 1


# --- symbolic addresses ---------------------------------------------------------------------------


def test_symbolic_addresses_are_computed_from_parameters(tmp_path):
    text, files = write_bundle(tmp_path, [row_slice()], **SYMBOLIC)
    arg = "!sdscbundle.input_arg<index>"
    assert text.splitlines() == [
        "module {",
        f"\tfunc.func @sdsc_bundle(%arg_0_base_addr: {arg}) {{",
        f"\t\t%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : {arg} -> index",
        "\t\t%arg_0_core_offset_4096 = arith.constant 4096 : index",
        "\t\t%arg_0_core_4096 = arith.addi %arg_0, %arg_0_core_offset_4096 : index",
        "\t\t%arg_0_core_offset_8192 = arith.constant 8192 : index",
        "\t\t%arg_0_core_8192 = arith.addi %arg_0, %arg_0_core_offset_8192 : index",
        "\t\tsdscbundle.sdsc_execute (%arg_0_core_4096, %arg_0_core_8192) "
        '{sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}',
        "\t\treturn",
        "\t}",
        "}",
    ]
    source, target = nodes(files[0])
    assert source["isStartAddrSymbolic_"] == 1
    assert "isStartAddrSymbolic_" not in target
    assert [start(files[0], 0, core) for core in (0, 1)] == ["-1", "-2"]
    assert [start(files[0], 1, core) for core in (0, 1)] == ["0", "0"]


def test_symbol_ids_are_unique_to_an_address_of_a_file(tmp_path):
    shape = ([1, 1, 64], MATRIX)
    square = op(
        "mul", "c0=1 c1=64", tensor(*shape, 0), tensor(*shape, 0), tensor(*shape, 1, output=True)
    )
    text, files = write_bundle(tmp_path, [square, square], **SYMBOLIC)
    ids = [json.loads(match) for match in re.findall(r'"symbol_ids"=(\[.*?\])', text)]
    assert ids == [[-1, -2], [-3, -4]]
    assert [start(files[1], position) for position in range(3)] == ["-3", "-3", "-4"]
    assert re.findall(r"sdsc_execute \((.*?)\)", text) == ["%arg_0, %arg_1"] * 2


def test_the_pool_is_the_first_parameter(tmp_path):
    shape = ([2, 8, 64], MATRIX)
    spec = op("neg", "c0=8/2 c1=128", tensor(*shape, 0), tensor(*shape, {"pool": 256}, output=True))
    text, files = write_bundle(tmp_path, [spec], **SYMBOLIC)
    assert re.findall(r"%(\w+)_base_addr: ", text) == ["pool", "arg_0"]
    assert "%pool_offset_256 = arith.constant 256 : index" in text
    assert "%pool_addr_768 = arith.addi %pool, %pool_offset_768 : index" in text


# --- loops ----------------------------------------------------------------------------------------


def test_unrolled_tiles_preserve_extents_and_advance_by_device_strides(tmp_path):
    text, files = write_bundle(tmp_path, [tiled_rows()], **FIXED)
    assert text.count("sdsc_execute") == len(files) == 4
    step = 16 * 128
    assert [int(start(file, 0)) for file in files] == [trip * step for trip in range(4)]
    assert nodes(files[1])[0]["backGapCore_"] == {"mb": {"-1": "48"}}


def test_tensors_fixed_per_tile_do_not_advance(tmp_path):
    fixed = {"place": {"lx": 512}, "per_tile_fixed": True, "name": "scratch"}
    _, files = write_bundle(tmp_path, [tiled_rows(fixed)], **FIXED)
    assert {start(file, 1) for file in files} == {"512"}


def test_a_written_loop_advances_by_device_strides(tmp_path):
    text, files = write_bundle(tmp_path, [tiled_rows(space="c0=16 c1=128")], **LOOPED)
    assert len(files) == 1
    assert text.splitlines()[0] == "#map_0 = affine_map<(d0)[s0] -> (s0 + 2048*d0)>"
    assert "\n".join(text.splitlines()[5:]) == "\n".join(
        [
            "\t\t%c0 = arith.constant 0 : index",
            "\t\t%c1 = arith.constant 1 : index",
            "\t\t%loop_bound_0 = arith.constant 4 : index",
            "\t\tscf.for %i_0 = %c0 to %loop_bound_0 step %c1 {",
            "\t\t\t%addr_0 = affine.apply #map_0(%i_0)[%arg_0]",
            "\t\t\t%addr_1 = affine.apply #map_0(%i_0)[%arg_1]",
            "\t\t\tsdscbundle.sdsc_execute (%addr_0, %addr_1) "
            '{sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}',
            "\t\t}",
            "\t\treturn",
            "\t}",
            "}",
        ]
    )


def two_loops(fixed=False):
    """Return a relu of [1024, 4096] in tiles of 512 rows and 1024 columns."""
    shape = ([64, 1024, 64], MATRIX)
    body = op(
        "relufwd",
        "c0=512 c1=1024",
        tensor(*shape, 0, per_tile_fixed=fixed),
        tensor(*shape, 1, output=True, per_tile_fixed=fixed),
        tiled_symbols=[sympify("c0"), sympify("c1")],
    )
    inner = LoopSpec(sympify("4"), [body], [sympify("c1")])
    return LoopSpec(sympify("2"), [inner], [sympify("c0")])


def test_nested_loops_use_one_affine_map(tmp_path):
    text, _ = write_bundle(tmp_path, [two_loops()], **LOOPED)
    assert "#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 65536*d0 + 2097152*d1)>" in text
    assert "\t\t%loop_bound_0 = arith.constant 2 : index" in text
    assert "\t\t%loop_bound_1 = arith.constant 4 : index" in text
    assert "\t\t\tscf.for %i_1 = %c0 to %loop_bound_1 step %c1 {" in text
    assert "\t\t\t\t%addr_0 = affine.apply #map_0(%i_0, %i_1)[%arg_0]" in text


def test_written_and_unrolled_loops_execute_the_same_ops(tmp_path):
    generate_bundle("kernel", tmp_path / "loops", [two_loops()], **LOOPED)
    generate_bundle("kernel", tmp_path / "unrolled", [two_loops()], **SYMBOLIC)
    looped, unrolled = import_bundle(tmp_path / "loops"), import_bundle(tmp_path / "unrolled")
    assert len(looped) == 8
    assert repr(looped) == repr(unrolled)


def test_nested_loops_over_one_symbol_visit_all_tiles():
    shape = ([1, 64, 64], MATRIX)
    body = op(
        "neg",
        "c0=8 c1=64",
        tensor(*shape, 0),
        tensor(*shape, 1, output=True),
        tiled_symbols=[sympify("c0"), sympify("c0")],
    )
    inner = LoopSpec(sympify("4"), [body], [sympify("c0")])
    unrolled = unroll_loop_specs([LoopSpec(sympify("2"), [inner], [sympify("c0")])])
    rows = [str(spec.args[0].device_coordinates[1]) for spec in unrolled]
    assert rows == ["c0", *(f"c0 + {8 * tile}" for tile in range(1, 8))]
    assert all(spec.tiled_symbols == () for spec in unrolled)


def test_a_loop_without_symbols_tiles_those_of_its_first_op():
    loop = tiled_rows()
    unrolled = unroll_loop_specs([LoopSpec(loop.count, loop.body)])
    assert str(unrolled[3].args[0].device_coordinates[1]) == "c0 + 48"


def test_a_loop_with_fixed_addresses_is_written_if_no_tensor_advances(tmp_path):
    fixed = two_loops(fixed=True).body[0].body[0]
    loop = LoopSpec(sympify("3"), [fixed])
    text, _ = write_bundle(tmp_path, [loop], unroll_loops=False, symbolic_args=False)
    assert text.splitlines() == [
        "module {",
        "\tfunc.func @sdsc_bundle() {",
        "\t\t%c0 = arith.constant 0 : index",
        "\t\t%c1 = arith.constant 1 : index",
        "\t\t%loop_bound_0 = arith.constant 3 : index",
        "\t\tscf.for %i_0 = %c0 to %loop_bound_0 step %c1 {",
        '\t\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}',
        "\t\t}",
        "\t\treturn",
        "\t}",
        "}",
    ]
    assert len(import_bundle(tmp_path)) == 3


def test_a_loop_that_advances_tensors_at_fixed_addresses_is_rejected(tmp_path):
    with pytest.raises(InvalidOpSpecError, match="unroll the loop, or make addresses symbolic"):
        write_bundle(tmp_path, [tiled_rows()], unroll_loops=False, symbolic_args=False)


def test_a_written_loop_cannot_advance_scratchpad_tensors(tmp_path):
    scratchpad = {"place": {"lx": 0}, "name": "part"}
    with pytest.raises(InvalidOpSpecError, match="within the scratchpad.*unroll the loop"):
        write_bundle(tmp_path, [tiled_rows(scratchpad)], **LOOPED)


@pytest.mark.parametrize(("unroll", "error"), [(True, ValueError), (False, NotImplementedError)])
def test_a_symbolic_trip_count_is_rejected(unroll, error, tmp_path):
    with pytest.raises(error, match="s0 trips"):
        write_bundle(tmp_path, [tiled_rows(count="s0")], unroll_loops=unroll, symbolic_args=True)


def test_unimplemented_ops_are_omitted(tmp_path):
    specs = [LoopSpec(sympify("2"), [UnimplementedOp("prod")]), add_128_256()]
    text, files = write_bundle(tmp_path, specs, **FIXED)
    assert len(files) == text.count("sdsc_execute") == 1


# --- addresses of arguments -----------------------------------------------------------------------


def test_segments_match_the_default_card():
    """The format fixes the segments of the address space; cards do not change them."""
    memory = load_card("spyre").memory
    assert memory.segment_bytes == SEGMENT_BYTES
    assert memory.program_segment == ARGUMENT_SEGMENTS


def test_up_to_seven_arguments_have_a_segment_each():
    assert assign_argument_addresses([128] * 7) == [i << 34 for i in range(7)]
    assert assign_argument_addresses([128] * 2, has_pool=True) == [1 << 34, 2 << 34]


def test_further_arguments_follow_in_the_same_segments():
    addresses = assign_argument_addresses([100] * 9)
    assert addresses[7:] == [128, (1 << 34) + 128]


def test_arguments_larger_than_the_segments_are_rejected():
    with pytest.raises(InvalidOpSpecError, match="argument 7 of 8: its .* bytes do not fit"):
        assign_argument_addresses([SEGMENT_BYTES - 128] * 7 + [256])


@pytest.mark.parametrize("options", [FIXED, SYMBOLIC], ids=["fixed", "symbolic"])
def test_a_kernel_of_nine_arguments_reads_back(options, tmp_path):
    shape = ([1, 4, 64], "floor(c1/64); c0 + 1; Mod(c1, 64)")
    args = [
        dataclasses.replace(tensor(*shape, 0, output=index == 8), arg_index=index)
        for index in range(9)
    ]
    spec = op("sum9", "c0=2 c1=64", *args)
    (spec,) = with_argument_addresses([spec])
    generate_bundle("kernel", tmp_path, [spec], **options)
    (read,) = import_bundle(tmp_path)
    assert [arg.arg_index for arg in read.args] == list(range(9))
    assert [arg.allocation for arg in read.args] == [arg.allocation for arg in spec.args]
    assert {str(arg.device_coordinates[1]) for arg in read.args} == {"c0 + 1"}


def test_arguments_at_the_same_address_get_new_addresses(tmp_path):
    spec = add_128_256()
    args = [dataclasses.replace(arg, allocation={"hbm": 0}) for arg in spec.args]
    generate_bundle("kernel", tmp_path, [dataclasses.replace(spec, args=args)], **FIXED)
    (read,) = import_bundle(tmp_path)
    assert [arg.allocation["hbm"] for arg in read.args] == [0, 1 << 34, 2 << 34]


def test_a_pool_moves_arguments_to_the_next_segment(tmp_path):
    shape = ([1, 4, 64], MATRIX)
    specs = with_argument_addresses(
        [op("neg", "c0=4 c1=64", tensor(*shape, 0), tensor(*shape, {"pool": 0}, output=True))]
    )
    assert specs[0].args[0].allocation == {"hbm": 1 << 34}
    for name, options in {"fixed": FIXED, "symbolic": SYMBOLIC}.items():
        generate_bundle("kernel", tmp_path / name, specs, **options)
        (read,) = import_bundle(tmp_path / name)
        assert [(arg.arg_index, arg.allocation) for arg in read.args] == [
            (0, {"hbm": 1 << 34}),
            (-1, {"pool": 0}),
        ]


def test_the_core_order_of_a_matmul_reads_back(tmp_path):
    with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION="0"):
        generate_bundle("kernel", tmp_path, [matmul()], **FIXED)
    (read,) = import_bundle(tmp_path)
    assert read.op_info == {"k_fast": False}
