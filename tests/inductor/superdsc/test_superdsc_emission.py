"""Tests of the content of SuperDSC files: dims, cores, coordinates, addresses, constants."""

import dataclasses
import math

import pytest
from op_spec_samples import (
    FP32,
    INT32,
    MATRIX,
    add_128_256,
    matmul,
    op,
    row_slice,
    samples,
    tensor,
)
from sdsc_reading import coordinate_terms, sdsc, starts

from torch_spyre._C import DataFormats, encode_constant
from torch_spyre._inductor.superdsc import generate_sdsc, parse_op_spec
from torch_spyre.errors import InvalidOpSpecError

FP16 = DataFormats.SEN169_FP16

# --- an elementwise op ----------------------------------------------------------------------------


def test_the_top_level_key_is_the_index_and_the_op():
    content = generate_sdsc(3, parse_op_spec(add_128_256()))
    assert list(content) == ["3_add"]
    assert list(content["3_add"]["dscs_"][0]) == ["add"]


def test_add_of_two_matrices_on_32_cores():
    body, dsc = sdsc(add_128_256())
    assert body["numCoresUsed_"] == 32
    assert body["numWkSlicesPerDim_"] == {"mb": 8, "out": 4}
    assert body["coreIdToWkSlice_"]["9"] == {"mb": 1, "out": 1}
    assert body["coreIdToDscSchedule"]["31"] == [[-1, 0, 0, 0]]
    assert body["sdscFoldProps_"] == [{"factor_": 1, "label_": "time"}]
    assert dsc["N_"] == {"name_": "n", "mb_": 128, "out_": 256}
    assert dsc["coordinateMasking_"] == {}
    assert dsc["maskingConstId_"] == -1
    stage = {"name_": "core", "mb_": 16, "out_": 64}
    assert dsc["dataStageParam_"] == {"0": {"ss_": stage, "el_": stage}}
    assert dsc["primaryDsInfo_"] == {
        "OUTPUT": {
            "layoutDimOrder_": ["mb", "out"],
            "stickDimOrder_": ["out"],
            "stickSize_": [64],
        }
    }
    assert dsc["constantInfo_"] == "{}"
    assert dsc["computeOp_"] == [
        {
            "exUnit": "sfp",
            "opFuncName": "add",
            "attributes_": {"dataFormat_": "SEN169_FP16", "fidelity_": "regular"},
            "location": "Inner",
            "inputLabeledDs": ["Tensor0-idx0", "Tensor1-idx1"],
            "outputLabeledDs": ["Tensor2-idx2"],
        }
    ]
    assert dsc["labeledDs_"][1] == {
        "ldsIdx_": 1,
        "dsName_": "Tensor1",
        "dsType_": "OUTPUT",
        "scale_": [1, 1],
        "wordLength": 2,
        "dataFormat_": "SEN169_FP16",
        "memOrg_": {"hbm": {"isPresent": 1}, "lx": {"isPresent": 1}},
    }


def test_each_core_starts_at_its_slice():
    _, dsc = sdsc(add_128_256())
    assert starts(dsc, 0) == [str(c % 8 * 2048 + c // 8 * 16384) for c in range(32)]
    assert starts(dsc, 0)[9] == "18432"
    assert starts(dsc, 1)[1] == str(17179869184 + 2048)


def test_coordinates_of_a_matrix():
    _, dsc = sdsc(add_128_256())
    unused = {"corelet_fold": (0, 1), "row_fold": (0, 1)}
    assert coordinate_terms(dsc, 0, "mb") == {"core_fold": (16, 8), **unused, "elem_arr_0": (1, 16)}
    assert coordinate_terms(dsc, 0, "out") == {
        "core_fold": (64, 4),
        **unused,
        "elem_arr_1": (64, 1),
        "elem_arr_0": (1, 64),
    }
    coordinates = dsc["scheduleTree_"][0]["coordinates_"]
    assert coordinates["coreIdToWkSlice_"] == {}
    assert [coordinates["coordInfo"]["out"][key] for key in ("spatial", "temporal", "elemArr")] == [
        3,
        0,
        2,
    ]
    assert coordinates["coordInfo"]["mb"]["padding"] == "nopad"


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "one dim",
        "three dims",
        "broadcast row",
        "broadcast column",
        "broadcast scalar",
        "no stick",
        "scalars",
        "matmul without padding",
        "matmul of four dims, one weight",
        "a vector to single precision",
    ],
)
def test_a_regular_op_needs_no_extension(name):
    (spec,) = samples()[name]
    text = str(generate_sdsc(0, parse_op_spec(spec)))
    assert "torchSpyre_" not in text
    assert "backGapCore_" not in text


@pytest.mark.parametrize("name", [name for name in samples() if name != "loop"])
def test_only_irregular_coordinates_are_written_explicitly(name):
    irregular = {"lane slice", "every other row", "flipped rows", "two symbols in one dim"}
    irregular |= {"one plane", "gather by two indices", "gather of the first rows"}
    text = str([generate_sdsc(0, parse_op_spec(spec)) for spec in samples()[name]])
    assert ("'coordinates': [" in text) == (name in irregular)


def test_strides_are_spans_of_dims_on_the_device():
    parsed = parse_op_spec(add_128_256())
    assert parsed.args[0].stride == {"mb": 8192, "out": 32768}


@pytest.mark.parametrize("name", samples())
def test_the_number_of_cores_is_the_product_of_the_splits(name):
    for spec in samples()[name]:
        if not hasattr(spec, "op"):
            continue
        body, dsc = sdsc(spec)
        cores = math.prod(body["numWkSlicesPerDim_"].values())
        assert body["numCoresUsed_"] == dsc["numCoresUsed_"] == cores
        assert len(dsc["coreIdsUsed_"]) == cores


def test_dims_have_the_labels_of_their_op():
    shape = ([3, 2, 8, 64], "c0; floor(c2/64); c1; Mod(c2, 64)")
    space = "c0=3 c1=8 c2=128"
    _, dsc = sdsc(op("neg", space, tensor(*shape), tensor(*shape, 1, output=True)))
    assert list(dsc["N_"]) == ["name_", "mb_", "x_", "out_"]
    _, dsc = sdsc(matmul())
    assert list(dsc["N_"]) == ["name_", "mb_", "out_", "in_"]
    _, dsc = sdsc(samples()["batched matmul"][0])
    assert list(dsc["N_"]) == ["name_", "x_", "mb_", "out_", "in_"]
    _, dsc = sdsc(samples()["one dim"][0])
    assert list(dsc["N_"]) == ["name_", "out_"]


def test_too_many_dims_are_rejected():
    names = [f"c{i}" for i in range(9)]
    coordinates = "; ".join([*names[:-1], "floor(c8/64)", "Mod(c8, 64)"])
    args = [
        tensor([1] * 9 + [64], coordinates, 0),
        tensor([1] * 9 + [64], coordinates, 1, output=True),
    ]
    with pytest.raises(InvalidOpSpecError, match="supports at most 8 dims, but it has 9"):
        sdsc(op("neg", " ".join(f"{name}=1" for name in names), *args))


def test_ragged_columns_are_padded_without_a_mask():
    _, dsc = sdsc(samples()["ragged columns"][0])
    assert dsc["N_"]["out_"] == 128
    assert dsc["coordinateMasking_"] == {}
    assert dsc["torchSpyre_"] == {"sizes": {"mb": 8, "out": 100}}


def test_a_broadcast_row_is_the_same_on_all_cores():
    _, dsc = sdsc(samples()["broadcast row"][0])
    assert dsc["labeledDs_"][1]["scale_"] == [-1, 1]
    columns = {str(17179869184 + stick * 128) for stick in range(4)}
    assert set(starts(dsc, 1)) == columns
    assert starts(dsc, 1)[0:8] == [str(17179869184)] * 8


def test_a_broadcast_column_has_one_stick():
    _, dsc = sdsc(samples()["broadcast column"][0])
    assert dsc["labeledDs_"][1]["scale_"] == [1, -2]
    assert coordinate_terms(dsc, 1, "out")["elem_arr_0"] == (0, 64)


def test_uneven_splits_are_rejected():
    args = [tensor([2, 100, 64], MATRIX, 0), tensor([2, 100, 64], MATRIX, 1, output=True)]
    with pytest.raises(InvalidOpSpecError, match="c0 has size 100, which 8 cores do not divide"):
        sdsc(op("neg", "c0=100/8 c1=128", *args))
    with pytest.raises(InvalidOpSpecError, match="not whole sticks of 64"):
        sdsc(op("neg", "c0=100 c1=192/2", *args))


def test_the_stick_size_must_match_the_format():
    invalid = tensor([2, 100, 64], MATRIX, 0, FP32)
    with pytest.raises(
        InvalidOpSpecError, match="sticks of 64 elements, but sticks of IEEE_FP32 have 32"
    ):
        sdsc(op("neg", "c0=100 c1=128", invalid, tensor([2, 100, 64], MATRIX, 1, output=True)))


# --- addresses ------------------------------------------------------------------------------------


def test_a_scratchpad_tensor_has_the_same_address_on_every_core():
    _, dsc = sdsc(row_slice())
    node = dsc["scheduleTree_"][1]
    assert (node["component_"], node["name_"]) == ("lx", "allocate-Tensor1_lx")
    assert starts(dsc, 1) == ["0", "0"]
    assert dsc["labeledDs_"][1]["memOrg_"] == {"lx": {"isPresent": 1}}


def test_a_pool_tensor_starts_at_its_offset():
    args = [tensor([2, 8, 64], MATRIX, {"pool": 1280}), tensor([2, 8, 64], MATRIX, 0, output=True)]
    _, dsc = sdsc(op("neg", "c0=8/2 c1=128", *args))
    assert dsc["scheduleTree_"][0]["component_"] == "hbm"
    assert starts(dsc, 0) == ["1280", str(1280 + 4 * 128)]
    assert dsc["scheduleTree_"][0]["torchSpyre_"] == {"place": "pool"}


def test_an_address_beyond_the_argument_segments_is_rejected():
    eighth = dataclasses.replace(tensor([1, 64], "0; 0"), arg_index=7, allocation={"hbm": 7 << 34})
    with pytest.raises(
        InvalidOpSpecError, match="more than 7 arguments.*assign_argument_addresses"
    ):
        sdsc(op("neg", "", eighth, tensor([1, 64], "0; 0", 1, output=True)))


def test_a_row_slice_has_an_offset_and_a_gap():
    _, dsc = sdsc(row_slice())
    node = dsc["scheduleTree_"][0]
    assert starts(dsc, 0) == ["4096", "8192"]
    assert node["backGapCore_"] == {"mb": {"-1": "64"}}
    assert node["torchSpyre_"]["physicalExtents"] == {"mb": 128, "out": 128}
    parsed = parse_op_spec(row_slice()).args[0]
    assert (parsed.offset["mb"], parsed.stride["mb"]) == (32 * 64, 64 * 64)


def test_a_gap_in_the_scratchpad_is_listed_for_each_core():
    args = [
        tensor([2, 128, 64], MATRIX, {"lx": 0}, name="buffer"),
        tensor([2, 64, 64], MATRIX, 0, output=True),
    ]
    _, dsc = sdsc(op("exp", "c0=64/2 c1=128", *args))
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"0": "64", "1": "64"}}


def test_one_plane_of_several_is_a_gap_of_the_inner_dim():
    """So the public keys alone give the right addresses."""
    _, dsc = sdsc(samples()["one plane"][0])
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"-1": str(5 * 8 - 8)}}
    assert starts(dsc, 0)[0] == str(3 * 8 * 128)


# --- constants ------------------------------------------------------------------------------------


def test_constants_are_encoded_and_kept_exact():
    _, dsc = sdsc(samples()["clip"][0])
    constants = dsc["constantInfo_"]
    assert [constants[key]["name_"] for key in ("0", "1")] == ["clipMin", "clipMax"]
    assert constants["0"]["dataFormat_"] == "SEN169_FP16"
    data = constants["0"]["data_"]
    assert data["data_"] == {"[0, 0, 0]": [encode_constant(-1.0, FP16)]}
    assert data["dim_prop_func"] == [{"Const": {}}, {"Const": {}}, {"Map": {}}]
    assert dsc["torchSpyre_"] == {"exactConstants": {"clipMax": 0.1}}


def test_constants_of_integer_ops_are_exact():
    shape = ([1, 1, 32], "floor(c1/32); c0; Mod(c1, 32)")
    spec = op(
        "add",
        "c0=1 c1=32",
        tensor(*shape, 0, INT32),
        tensor(*shape, 1, INT32, output=True),
        op_info={"constants": {"operand1": -1234567890}},
    )
    _, dsc = sdsc(spec)
    constant = dsc["constantInfo_"]["0"]
    assert constant["dataFormat_"] == "IEEE_INT32"
    assert constant["data_"]["data_"]["[0, 0, 0]"] == [2**32 - 1234567890]
    assert "torchSpyre_" not in dsc


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"constants": {"a": "one"}}, "constant a is 'one', not a number"),
        ({"constants": {"samv-maskvalue": 1.0}}, "is reserved"),
        ({"thing": object()}, "cannot be written as JSON"),
    ],
)
def test_unsupported_op_info_is_rejected(info, message):
    with pytest.raises(InvalidOpSpecError, match=message):
        sdsc(dataclasses.replace(add_128_256(), op_info=info))


@pytest.mark.parametrize("coordinate", ["c0**2", "c0/2", "Mod(c0, c1)"])
def test_invalid_coordinates_are_rejected(coordinate):
    invalid = tensor([2, 200, 64], f"floor(c1/64); {coordinate}; Mod(c1, 64)")
    with pytest.raises(InvalidOpSpecError, match="tensor 0 has the coordinate"):
        sdsc(op("neg", "c0=8 c1=128", invalid, tensor([2, 8, 64], MATRIX, 1, output=True)))


def test_more_than_four_layouts_are_rejected():
    sizes = [2, 2, 2, 2, 2, 64]
    symbols = [f"c{i}" for i in range(5)]

    def with_stick(stick, arg_index, **options):
        outer = [name for name in symbols if name != stick]
        coordinates = [f"floor({stick}/64)", *outer, f"Mod({stick}, 64)"]
        return tensor(sizes, "; ".join(coordinates), arg_index, **options)

    args = [with_stick(name, arg_index) for arg_index, name in enumerate(symbols)]
    spec = op("fma", "c0=2 c1=2 c2=2 c3=2 c4=2", *args, with_stick("c4", 5, output=True))
    with pytest.raises(InvalidOpSpecError, match="more than 4 layouts"):
        sdsc(spec)
