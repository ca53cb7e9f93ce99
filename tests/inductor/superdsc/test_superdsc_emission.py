"""What a SuperDSC file says: dims, cores and folds, places, constants."""

import dataclasses

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
from sdsc_reading import folds, sdsc, starts

from torch_spyre._C import DataFormats, encode_constant
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc import generate_sdsc, parse_op_spec

HALF = DataFormats.SEN169_FP16

# --- an elementwise op ----------------------------------------------------------------------------


def test_the_only_key_is_the_number_and_the_op():
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


def test_each_core_starts_at_its_own_part():
    _, dsc = sdsc(add_128_256())
    assert starts(dsc, 0) == [str(c % 8 * 2048 + c // 8 * 16384) for c in range(32)]
    assert starts(dsc, 0)[9] == "18432"
    assert starts(dsc, 1)[1] == str(17179869184 + 2048)


def test_folds_of_a_matrix():
    _, dsc = sdsc(add_128_256())
    nothing = {"corelet_fold": (0, 1), "row_fold": (0, 1)}
    assert folds(dsc, 0, "mb") == {"core_fold": (16, 8), **nothing, "elem_arr_0": (1, 16)}
    assert folds(dsc, 0, "out") == {
        "core_fold": (64, 4),
        **nothing,
        "elem_arr_1": (64, 1),
        "elem_arr_0": (1, 64),
    }
    shown = dsc["scheduleTree_"][0]["coordinates_"]
    assert shown["coreIdToWkSlice_"] == {}
    assert [shown["coordInfo"]["out"][key] for key in ("spatial", "temporal", "elemArr")] == [
        3,
        0,
        2,
    ]
    assert shown["coordInfo"]["mb"]["padding"] == "nopad"


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
def test_a_plain_op_needs_no_extension(name):
    (spec,) = samples()[name]
    text = str(generate_sdsc(0, parse_op_spec(spec)))
    assert "torchSpyre_" not in text
    assert "backGapCore_" not in text


@pytest.mark.parametrize("name", [name for name in samples() if name != "loop"])
def test_only_unusual_coordinates_are_written_out(name):
    unusual = {"lane slice", "every other row", "flipped rows", "two symbols in one dim"}
    unusual |= {"one plane", "gather by two indices", "gather of the first rows"}
    text = str([generate_sdsc(0, parse_op_spec(spec)) for spec in samples()[name]])
    assert ("'coordinates': [" in text) == (name in unusual)


def test_spans_of_a_matrix_are_device_linear():
    parsed = parse_op_spec(add_128_256())
    assert parsed.args[0].stride == {"mb": 8192, "out": 32768}


@pytest.mark.parametrize("name", samples())
def test_cores_are_the_product_of_slices(name):
    for spec in samples()[name]:
        if not hasattr(spec, "op"):
            continue
        body, dsc = sdsc(spec)
        product = 1
        for slices in body["numWkSlicesPerDim_"].values():
            product *= slices
        assert body["numCoresUsed_"] == dsc["numCoresUsed_"] == product
        assert len(dsc["coreIdsUsed_"]) == product


def test_labels_of_dims():
    deep = ("c0; floor(c2/64); c1; Mod(c2, 64)", [3, 2, 8, 64])
    space = "c0=3 c1=8 c2=128"
    _, dsc = sdsc(
        op("neg", space, tensor(deep[1], deep[0]), tensor(deep[1], deep[0], 1, output=True))
    )
    assert list(dsc["N_"]) == ["name_", "mb_", "x_", "out_"]
    _, dsc = sdsc(matmul())
    assert list(dsc["N_"]) == ["name_", "mb_", "out_", "in_"]
    _, dsc = sdsc(samples()["batched matmul"][0])
    assert list(dsc["N_"]) == ["name_", "x_", "mb_", "out_", "in_"]
    _, dsc = sdsc(samples()["one dim"][0])
    assert list(dsc["N_"]) == ["name_", "out_"]


def test_too_many_dims_are_refused():
    names = [f"c{i}" for i in range(9)]
    coordinates = "; ".join([*names[:-1], "floor(c8/64)", "Mod(c8, 64)"])
    args = [
        tensor([1] * 9 + [64], coordinates, 0),
        tensor([1] * 9 + [64], coordinates, 1, output=True),
    ]
    with pytest.raises(InvalidOpSpecError, match="has names for 8 dims, and it has 9"):
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
    assert folds(dsc, 1, "out")["elem_arr_0"] == (0, 64)


def test_a_dim_that_cores_cannot_share_evenly_is_refused():
    args = [tensor([2, 100, 64], MATRIX, 0), tensor([2, 100, 64], MATRIX, 1, output=True)]
    with pytest.raises(InvalidOpSpecError, match="c0 has 100 indices, which 8 cores cannot share"):
        sdsc(op("neg", "c0=100/8 c1=128", *args))
    with pytest.raises(InvalidOpSpecError, match="not whole sticks of 64"):
        sdsc(op("neg", "c0=100 c1=192/2", *args))


def test_a_format_must_fit_its_sticks():
    wrong = tensor([2, 100, 64], MATRIX, 0, FP32)
    with pytest.raises(InvalidOpSpecError, match="sticks of 64 elements, and IEEE_FP32 has 32"):
        sdsc(op("neg", "c0=100 c1=128", wrong, tensor([2, 100, 64], MATRIX, 1, output=True)))


# --- places ---------------------------------------------------------------------------------------


def test_a_scratchpad_tensor_starts_at_one_address_on_every_core():
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


def test_an_address_beyond_the_argument_segments_is_refused():
    eighth = dataclasses.replace(tensor([1, 64], "0; 0"), arg_index=7, allocation={"hbm": 7 << 34})
    with pytest.raises(
        InvalidOpSpecError, match="more than 7 arguments.*assign_argument_addresses"
    ):
        sdsc(op("neg", "", eighth, tensor([1, 64], "0; 0", 1, output=True)))


def test_a_row_slice_starts_later_and_has_a_gap():
    _, dsc = sdsc(row_slice())
    node = dsc["scheduleTree_"][0]
    assert starts(dsc, 0) == ["4096", "8192"]
    assert node["backGapCore_"] == {"mb": {"-1": "64"}}
    assert node["torchSpyre_"]["physicalExtents"] == {"mb": 128, "out": 128}
    parsed = parse_op_spec(row_slice()).args[0]
    assert (parsed.offset["mb"], parsed.stride["mb"]) == (32 * 64, 64 * 64)


def test_a_gap_in_the_scratchpad_is_listed_for_each_core():
    args = [
        tensor([2, 128, 64], MATRIX, {"lx": 0}, name="part"),
        tensor([2, 64, 64], MATRIX, 0, output=True),
    ]
    _, dsc = sdsc(op("exp", "c0=64/2 c1=128", *args))
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"0": "64", "1": "64"}}


def test_one_plane_of_several_is_a_gap_of_the_dim_within():
    """A reader of the public keys alone finds the right addresses."""
    _, dsc = sdsc(samples()["one plane"][0])
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"-1": str(5 * 8 - 8)}}
    assert starts(dsc, 0)[0] == str(3 * 8 * 128)


# --- constants ------------------------------------------------------------------------------------


def test_constants_of_clip():
    _, dsc = sdsc(samples()["clip"][0])
    constants = dsc["constantInfo_"]
    assert [constants[key]["name_"] for key in ("0", "1")] == ["clipMin", "clipMax"]
    assert constants["0"]["dataFormat_"] == "SEN169_FP16"
    held = constants["0"]["data_"]
    assert held["data_"] == {"[0, 0, 0]": [encode_constant(-1.0, HALF)]}
    assert held["dim_prop_func"] == [{"Const": {}}, {"Const": {}}, {"Map": {}}]
    assert dsc["torchSpyre_"] == {"exactConstants": {"clipMax": 0.1}}


def test_constants_of_integers_are_single_precision():
    shape = ([1, 1, 32], "floor(c1/32); c0; Mod(c1, 32)")
    spec = op(
        "add",
        "c0=1 c1=32",
        tensor(*shape, 0, INT32),
        tensor(*shape, 1, INT32, output=True),
        op_info={"constants": {"operand1": 70000}},
    )
    _, dsc = sdsc(spec)
    constant = dsc["constantInfo_"]["0"]
    assert constant["dataFormat_"] == "IEEE_FP32"
    assert constant["data_"]["data_"]["[0, 0, 0]"] == [
        encode_constant(70000.0, DataFormats.IEEE_FP32)
    ]


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"constants": {"a": "one"}}, "constant a is 'one', not a number"),
        ({"constants": {"samv-maskvalue": 1.0}}, "not a constant to give"),
        ({"thing": object()}, "not all of which JSON can"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(info, message):
    with pytest.raises(InvalidOpSpecError, match=message):
        sdsc(dataclasses.replace(add_128_256(), op_info=info))


@pytest.mark.parametrize("coordinate", ["c0**2", "c0/2", "Mod(c0, c1)"])
def test_what_is_not_a_coordinate_is_refused(coordinate):
    odd = tensor([2, 200, 64], f"floor(c1/64); {coordinate}; Mod(c1, 64)")
    with pytest.raises(InvalidOpSpecError, match="tensor 0 has the coordinate"):
        sdsc(op("neg", "c0=8 c1=128", odd, tensor([2, 8, 64], MATRIX, 1, output=True)))


def test_more_than_four_layouts_are_refused():
    sizes = [2, 2, 2, 2, 2, 64]
    symbols = [f"c{i}" for i in range(5)]

    def along(stick, place, **more):
        outer = [name for name in symbols if name != stick]
        coordinates = [f"floor({stick}/64)", *outer, f"Mod({stick}, 64)"]
        return tensor(sizes, "; ".join(coordinates), place, **more)

    args = [along(name, place) for place, name in enumerate(symbols)]
    spec = op("fma", "c0=2 c1=2 c2=2 c3=2 c4=2", *args, along("c4", 5, output=True))
    with pytest.raises(InvalidOpSpecError, match="more than 4 different layouts"):
        sdsc(spec)
