"""What a SuperDSC file says of reductions, matrix products and data movement."""

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
from sdsc_reading import folds, sdsc, starts

from torch_spyre import knobs
from torch_spyre._C import DataFormats, encode_constant
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError

HALF = DataFormats.SEN169_FP16

# --- reductions -----------------------------------------------------------------------------------


def test_sum_over_sticks():
    _, dsc = sdsc(stick_sum())
    assert dsc["N_"]["out_"] == 128
    assert dsc["coordinateMasking_"] == {"out": [[100, 28]]}
    assert dsc["maskingConstId_"] == 0
    assert list(dsc["constantInfo_"]) == ["0"]
    assert dsc["constantInfo_"]["0"]["name_"] == "samv-maskvalue"
    assert dsc["constantInfo_"]["0"]["data_"]["data_"] == {"[0, 0, 0]": [0]}
    assert dsc["labeledDs_"][1]["scale_"] == [1, -2]
    assert folds(dsc, 1, "out") == {
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


def test_whole_sticks_need_no_mask():
    _, dsc = sdsc(stick_sum(128))
    assert (dsc["coordinateMasking_"], dsc["maskingConstId_"]) == ({}, -1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max", -float("inf")), ("min", float("inf")), ("sum", 0.0), ("mean", 0.0), ("exx2", 0.0)],
)
def test_padding_does_not_change_a_reduction(name, value):
    _, dsc = sdsc(stick_sum(op_name=name))
    held = dsc["constantInfo_"]["0"]["data_"]["data_"]["[0, 0, 0]"]
    assert held == [encode_constant(value, HALF)]


def test_the_mask_constant_is_named_by_its_true_number():
    spec = stick_sum(op_info={"constants": {"eps": 1.0}})
    _, dsc = sdsc(spec)
    assert dsc["maskingConstId_"] == 1
    assert [dsc["constantInfo_"][key]["name_"] for key in "01"] == ["eps", "samv-maskvalue"]


def test_sum_over_rows():
    _, dsc = sdsc(row_sum())
    assert list(dsc["N_"]) == ["name_", "mb_", "out_"]
    assert dsc["scheduleTree_"][0]["layoutDimOrder_"] == ["out", "mb"]
    assert dsc["scheduleTree_"][1]["layoutDimOrder_"] == ["mb", "out"]
    assert dsc["primaryDsInfo_"] == {
        "OUTPUT": {"layoutDimOrder_": ["out", "mb"], "stickDimOrder_": ["mb"], "stickSize_": [64]}
    }
    assert dsc["labeledDs_"][1]["scale_"] == [-1, 1]
    assert dsc["computeOp_"][0]["opFuncName"] == "sumnonstick"


def test_lanes_without_a_symbol_get_a_dim_of_their_own():
    _, dsc = sdsc(samples()["no stick"][0])
    assert dsc["N_"] == {"name_": "n", "out_": 128, "x_": 64}
    assert dsc["primaryDsInfo_"]["OUTPUT"]["stickDimOrder_"] == ["x"]


# --- matrix products ------------------------------------------------------------------------------


def test_matmul():
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
    assert all(set(each["scale_"]) == {1} for each in dsc["labeledDs_"])
    assert starts(dsc, 2)[0] == starts(dsc, 2)[1]


def test_cores_that_share_k_start_at_the_same_k_in_both_inputs():
    _, dsc = sdsc(matmul())
    assert int(starts(dsc, 0)[1]) == 2 * 64 * 128
    assert int(starts(dsc, 1)[1]) - int(starts(dsc, 1)[0]) == 128 * 128


def test_k_of_whole_sticks_stays():
    _, dsc = sdsc(matmul(k=192, splits=(2, 2, 3)))
    assert dsc["N_"]["in_"] == 192


@pytest.mark.parametrize(("flag", "differs"), [("1", "in"), ("0", "mb")])
def test_which_dim_neighbouring_cores_divide(flag, differs):
    with knobs.override(SPYRE_CORE_ID_K_FAST_EMISSION=flag):
        body, _ = sdsc(matmul())
    first, second = body["coreIdToWkSlice_"]["0"], body["coreIdToWkSlice_"]["1"]
    assert [label for label in first if first[label] != second[label]] == [differs]


# --- data movement --------------------------------------------------------------------------------


def test_restickify_of_ragged_rows():
    body, dsc = sdsc(restickify(splits=(3, 2)))
    assert dsc["N_"] == {"name_": "n", "mb_": 128, "out_": 128}
    assert body["numWkSlicesPerDim_"] == {"mb": 1, "out": 2}
    assert body["numCoresUsed_"] == 2
    assert dsc["scheduleTree_"][0]["backGapCore_"] == {"mb": {"-1": "32"}}
    assert dsc["scheduleTree_"][0]["torchSpyre_"]["physicalExtents"]["mb"] == 96
    assert starts(dsc, 0)[1] == "12288"


def test_gather():
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
    shown = dsc["labeledDs_"][0]
    assert (shown["dsType_"], shown["dataFormat_"]) == ("KERNEL_IDX", "SENUINT32")
    assert shown["memOrg_"] == {"hbm": {"isPresent": 1}}
    assert [each["dsType_"] for each in dsc["labeledDs_"][1:]] == ["OUTPUT", "OUTPUT"]
    (compute,) = dsc["computeOp_"]
    assert compute["inputLabeledDs"] == ["Tensor1-idx1"]
    assert compute["indirectAccessIndexLabeledDs"] == ["Tensor0-idx0"]
    assert compute["attributes_"]["dataFormat_"] == "SEN169_FP16"


def test_cores_of_a_gather_share_the_table():
    _, dsc = sdsc(gather(64, 2))
    assert len(set(starts(dsc, 1))) == 1
    assert len(set(starts(dsc, 0))) == 2


def test_an_index_tensor_that_the_op_lacks_is_refused():
    spec = gather()
    with pytest.raises(InvalidOpSpecError, match="index tensor arg1_1, which it does not have"):
        sdsc(dataclasses.replace(spec, args=spec.args[1:]))


def test_copies_of_integers_are_shown_as_single_precision():
    _, dsc = sdsc(samples()["copy of integers"][0])
    assert {each["dataFormat_"] for each in dsc["labeledDs_"]} == {"IEEE_FP32"}
    assert dsc["scheduleTree_"][0]["torchSpyre_"] == {"dataFormat": "IEEE_INT32"}


def test_a_conversion_of_a_vector_gets_a_dim_of_size_one():
    _, dsc = sdsc(samples()["a vector to single precision"][0])
    assert dsc["N_"] == {"name_": "n", "mb_": 1, "out_": 128}
    assert [each["wordLength"] for each in dsc["labeledDs_"]] == [2, 4]
    assert list(dsc["primaryDsInfo_"]) == ["OUTPUT", "KERNEL"]
