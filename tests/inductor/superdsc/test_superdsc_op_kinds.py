"""Tests of the content of SuperDSC files of reductions, matmuls and data movement."""

import dataclasses

import pytest
from op_spec_samples import (
    gather,
    matmul,
    restickify,
    row_sum,
    samples,
    stick_sum,
)
from sdsc_reading import coordinate_terms, sdsc, starts

from torch_spyre import knobs
from torch_spyre._C import DataFormats, encode_constant
from torch_spyre.errors import InvalidOpSpecError

FP16 = DataFormats.SEN169_FP16

# --- reductions -----------------------------------------------------------------------------------


def test_a_reduction_along_sticks_masks_padding():
    _, dsc = sdsc(stick_sum())
    assert dsc["N_"]["out_"] == 128
    assert dsc["coordinateMasking_"] == {"out": [[100, 28]]}
    assert dsc["maskingConstId_"] == 0
    assert list(dsc["constantInfo_"]) == ["0"]
    assert dsc["constantInfo_"]["0"]["name_"] == "samv-maskvalue"
    assert dsc["constantInfo_"]["0"]["data_"]["data_"] == {"[0, 0, 0]": [0]}
    assert dsc["labeledDs_"][1]["scale_"] == [1, -2]
    assert coordinate_terms(dsc, 1, "out") == {
        "core_fold": (64, 1),
        "corelet_fold": (0, 1),
        "row_fold": (0, 1),
        "elem_arr_1": (64, 1),
        "elem_arr_0": (0, 64),
    }
    assert starts(dsc, 1) == ["4096"] * 8
    (compute,) = dsc["computeOp_"]
    assert compute["opFuncName"] == "sum"
    assert compute["inputLabeledDs"] == ["Tensor0-idx0", "Tensor1-idx1"]
    assert compute["outputLabeledDs"] == ["Tensor1-idx1"]


def test_whole_sticks_have_no_mask():
    _, dsc = sdsc(stick_sum(128))
    assert (dsc["coordinateMasking_"], dsc["maskingConstId_"]) == ({}, -1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max", -float("inf")), ("min", float("inf")), ("sum", 0.0), ("mean", 0.0), ("exx2", 0.0)],
)
def test_the_mask_value_does_not_change_a_reduction(name, value):
    _, dsc = sdsc(stick_sum(op_name=name))
    bits = dsc["constantInfo_"]["0"]["data_"]["data_"]["[0, 0, 0]"]
    assert bits == [encode_constant(value, FP16)]


def test_the_mask_constant_follows_the_constants_of_the_op():
    spec = stick_sum(op_info={"constants": {"eps": 1.0}})
    _, dsc = sdsc(spec)
    assert dsc["maskingConstId_"] == 1
    assert [dsc["constantInfo_"][key]["name_"] for key in "01"] == ["eps", "samv-maskvalue"]


def test_a_reduction_along_rows_has_the_nonstick_function():
    _, dsc = sdsc(row_sum())
    assert list(dsc["N_"]) == ["name_", "mb_", "out_"]
    assert dsc["scheduleTree_"][0]["layoutDimOrder_"] == ["out", "mb"]
    assert dsc["scheduleTree_"][1]["layoutDimOrder_"] == ["mb", "out"]
    assert dsc["primaryDsInfo_"] == {
        "OUTPUT": {"layoutDimOrder_": ["out", "mb"], "stickDimOrder_": ["mb"], "stickSize_": [64]}
    }
    assert dsc["labeledDs_"][1]["scale_"] == [-1, 1]
    assert dsc["computeOp_"][0]["opFuncName"] == "sumnonstick"


def test_lanes_without_a_symbol_get_a_synthetic_dim():
    _, dsc = sdsc(samples()["no stick"][0])
    assert dsc["N_"] == {"name_": "n", "out_": 128, "x_": 64}
    assert dsc["primaryDsInfo_"]["OUTPUT"]["stickDimOrder_"] == ["x"]


# --- matmul ---------------------------------------------------------------------------------------


def test_layouts_of_a_matmul():
    body, dsc = sdsc(matmul())
    assert dsc["computeOp_"][0]["exUnit"] == "pt"
    assert dsc["computeOp_"][0]["inputLabeledDs"] == ["Tensor0-idx0", "Tensor1-idx1"]
    assert dsc["N_"]["in_"] == 256
    assert dsc["dataStageParam_"]["0"]["ss_"]["in_"] == 128
    layouts = {
        label: (entry["layoutDimOrder_"], entry["stickDimOrder_"])
        for label, entry in dsc["primaryDsInfo_"].items()
    }
    assert layouts == {
        "INPUT": (["mb", "in"], ["in"]),
        "KERNEL": (["in", "out"], ["out"]),
        "OUTPUT": (["mb", "out"], ["out"]),
    }
    assert all(set(labeled["scale_"]) == {1} for labeled in dsc["labeledDs_"])
    assert starts(dsc, 2)[0] == starts(dsc, 2)[1]


def test_cores_of_a_k_split_start_at_the_same_k_in_both_inputs():
    _, dsc = sdsc(matmul())
    assert int(starts(dsc, 0)[1]) == 2 * 64 * 128
    assert int(starts(dsc, 1)[1]) - int(starts(dsc, 1)[0]) == 128 * 128


def test_k_of_whole_sticks_is_not_padded():
    _, dsc = sdsc(matmul(k=192, splits=(2, 2, 3)))
    assert dsc["N_"]["in_"] == 192


@pytest.mark.parametrize(("k_fast", "differs"), [("1", "in"), ("0", "mb")])
def test_the_knob_selects_the_dim_that_varies_fastest(k_fast, differs):
    with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION=k_fast):
        body, _ = sdsc(matmul())
    first, second = body["coreIdToWkSlice_"]["0"], body["coreIdToWkSlice_"]["1"]
    assert [label for label in first if first[label] != second[label]] == [differs]


# --- data movement --------------------------------------------------------------------------------


def test_restickify_of_ragged_rows_has_a_gap():
    body, dsc = sdsc(restickify(splits=(3, 2)))
    assert dsc["N_"] == {"name_": "n", "mb_": 128, "out_": 128}
    assert body["numWkSlicesPerDim_"] == {"mb": 1, "out": 2}
    assert body["numCoresUsed_"] == 2
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"-1": "32"}}
    assert dsc["scheduleTree_"][0]["torchSpyre_"]["physicalExtents"]["mb"] == 96
    assert starts(dsc, 0)[1] == "12288"


def test_a_gather_links_index_and_value_tensor():
    _, dsc = sdsc(gather())
    index, table, _ = dsc["scheduleTree_"]
    assert index["indirectAllocType_"] == "index_tensor"
    assert index["indexTensorType_"] == "index"
    assert index["relatedIndirectAccessAlloc_"] == "allocate-Tensor1_hbm"
    assert table["indirectAllocType_"] == "value_tensor"
    assert table["relatedIndirectAccessAlloc_"] == "allocate-Tensor0_hbm"
    assert "indexTensorType_" not in table
    assert table["maxDimSizes_"] == [1, -1]
    assert list(table["coordinates_"]["coordInfo"]) == ["mb", "out"]
    labeled = dsc["labeledDs_"][0]
    assert (labeled["dsType_"], labeled["dataFormat_"]) == ("KERNEL_IDX", "SENUINT32")
    assert labeled["memOrg_"] == {"hbm": {"isPresent": 1}}
    assert [values["dsType_"] for values in dsc["labeledDs_"][1:]] == ["OUTPUT", "OUTPUT"]
    (compute,) = dsc["computeOp_"]
    assert compute["inputLabeledDs"] == ["Tensor1-idx1"]
    assert compute["indirectAccessIndexLabeledDs"] == ["Tensor0-idx0"]
    assert compute["attributes_"]["dataFormat_"] == "SEN169_FP16"


def test_all_cores_of_a_gather_start_at_the_same_table_address():
    _, dsc = sdsc(gather(64, 2))
    assert len(set(starts(dsc, 1))) == 1
    assert len(set(starts(dsc, 0))) == 2


def test_a_missing_index_tensor_is_rejected():
    spec = gather()
    with pytest.raises(
        InvalidOpSpecError, match="index tensor arg1_1, which is not among its tensors"
    ):
        sdsc(dataclasses.replace(spec, args=spec.args[1:]))


def test_copies_of_integers_are_written_as_fp32():
    _, dsc = sdsc(samples()["copy of integers"][0])
    assert {labeled["dataFormat_"] for labeled in dsc["labeledDs_"]} == {"IEEE_FP32"}
    assert dsc["scheduleTree_"][0]["torchSpyre_"] == {"dataFormat": "IEEE_INT32"}


def test_a_conversion_of_a_vector_gets_a_dim_of_size_one():
    _, dsc = sdsc(samples()["a vector to single precision"][0])
    assert dsc["N_"] == {"name_": "n", "mb_": 1, "out_": 128}
    assert [labeled["wordLength"] for labeled in dsc["labeledDs_"]] == [2, 4]
    assert list(dsc["primaryDsInfo_"]) == ["OUTPUT", "KERNEL"]
