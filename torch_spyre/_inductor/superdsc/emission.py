"""Generates the JSON of a SuperDSC file from an `SDSCSpec`."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch_spyre._inductor.superdsc.sdsc_spec import (
    EXTENSION_KEY,
    Constant,
    SDSCArgs,
    SDSCSpec,
)

Json = dict[str, Any]


def generate_sdsc(
    index: int, spec: SDSCSpec, symbols: Mapping[int, Sequence[int]] | None = None
) -> Json:
    """Return the content of `sdsc_<index>.json`.

    `symbols` maps the position of a tensor whose address is bound at launch to its symbol id on
    each core.
    """
    cores = [str(core) for core in range(spec.cores)]
    return {
        f"{index}_{spec.op_func}": {
            "sdscFoldProps_": [{"factor_": 1, "label_": "time"}],
            "sdscFolds_": {
                "dim_prop_func": [_affine(1)],
                "dim_prop_attr": [_dim_attribute(1, "time")],
                "data_": {"[0]": "0"},
            },
            "coreFoldProp_": _dim_attribute(spec.cores, "core"),
            "coreletFoldProp_": _dim_attribute(1, "corelet"),
            "numCoresUsed_": spec.cores,
            "coreIdToDsc_": dict.fromkeys(cores, 0),
            "numWkSlicesPerDim_": dict(spec.splits),
            "coreIdToWkSlice_": {
                core: dict(slices) for core, slices in zip(cores, spec.core_slices, strict=True)
            },
            "coreIdToDscSchedule": {core: [[-1, 0, 0, 0]] for core in cores},
            "dscs_": [{spec.op_func: _dsc(spec, symbols or {})}],
        }
    }


def _dsc(spec: SDSCSpec, symbols: Mapping[int, Sequence[int]]) -> Json:
    stage = {"name_": "core"} | {f"{label}_": spec.size_per_core(label) for label in spec.sizes}
    dsc: Json = {
        "numCoresUsed_": spec.cores,
        "numCoreletsUsed_": 1,
        "coreIdsUsed_": list(range(spec.cores)),
        "N_": {"name_": "n"} | {f"{label}_": size for label, size in spec.sizes.items()},
        "coordinateMasking_": {label: [list(span)] for label, span in spec.mask.items()},
        "maskingConstId_": spec.mask_constant,
        "dataStageParam_": {"0": {"ss_": stage, "el_": dict(stage)}},
        "primaryDsInfo_": {
            label: {
                "layoutDimOrder_": list(layout.dims),
                "stickDimOrder_": [layout.stick],
                "stickSize_": [layout.stick_size],
            }
            for label, layout in spec.layouts.items()
        },
        "scheduleTree_": [
            _allocate_node(spec, position, symbols.get(position))
            for position in range(len(spec.args))
        ],
        "labeledDs_": [_labeled_ds(spec, position) for position in range(len(spec.args))],
        "constantInfo_": {
            str(position): _constant(spec, constant)
            for position, constant in enumerate(spec.constants)
        }
        or "{}",
        "computeOp_": [_compute_op(spec)],
    }
    if spec.extension:
        dsc[EXTENSION_KEY] = dict(spec.extension)
    return dsc


# --- tensors --------------------------------------------------------------------------------------


def _node_name(spec: SDSCSpec, position: int) -> str:
    return f"allocate-Tensor{position}_{spec.args[position].component}"


def _tensor_reference(position: int) -> str:
    return f"Tensor{position}-idx{position}"


def _allocate_node(spec: SDSCSpec, position: int, symbols: Sequence[int] | None) -> Json:
    arg = spec.args[position]
    dims = spec.layouts[arg.layout].dims
    node: Json = {
        "nodeType_": "allocate",
        "name_": _node_name(spec, position),
        "prev_": "",
        "ldsIdx_": position,
        "component_": arg.component,
    }
    if symbols is not None:
        node["isStartAddrSymbolic_"] = 1
    node |= {
        "layoutDimOrder_": list(arg.dims),
        "maxDimSizes_": [arg.max_dim_size[label] for label in dims],
        "indirectAllocType_": arg.indirect_kind,
    }
    if arg.indirect_partner is not None:
        node["relatedIndirectAccessAlloc_"] = _node_name(spec, arg.indirect_partner)
    if arg.indirect_kind == "index_tensor":
        node["indexTensorType_"] = "index"
    node["startAddressCoreCorelet_"] = {
        "dim_prop_func": [{"Map": {}}, {"Const": {}}, {"Const": {}}],
        "dim_prop_attr": _core_attributes(spec),
        "data_": {
            f"[{core}, 0, 0]": str(start) for core, start in enumerate(symbols or arg.starts)
        },
    }
    if arg.back_gap:
        cores = list(map(str, range(spec.cores))) if arg.memory_space == "lx" else ["-1"]
        node["backGapCore_"] = {
            label: dict.fromkeys(cores, str(gap)) for label, gap in arg.back_gap.items()
        }
    # Without coordinates, a reader rejects a tensor whose dims do not describe the access.
    node["coordinates_"] = {
        "coordInfo": {label: _coordinate(spec, arg, label) for label in dims if arg.is_affine},
        "coreIdToWkSlice_": {},
    }
    if arg.extension:
        node[EXTENSION_KEY] = dict(arg.extension)
    return node


def _coordinate(spec: SDSCSpec, arg: SDSCArgs, label: str) -> Json:
    """Return the affine map from core, stick and lane to the coordinate of one dim."""
    is_indexed = arg.scale[label] == 1
    size = spec.size_per_core(label) if is_indexed else 1
    slices = spec.splits[label] if is_indexed else 1
    if label != arg.stick:
        elements = [(1, size, "elem_arr_0")]
    elif is_indexed:
        sticks = -(-size // arg.stick_size)
        elements = [(arg.stick_size, sticks, "elem_arr_1"), (1, arg.stick_size, "elem_arr_0")]
    else:
        # All lanes of the stick have the same coordinate.
        size = arg.stick_size
        elements = [(arg.stick_size, 1, "elem_arr_1"), (0, arg.stick_size, "elem_arr_0")]
    terms = [(size, slices, "core_fold"), (0, 1, "corelet_fold"), (0, 1, "row_fold"), *elements]
    return {
        "spatial": 3,
        "temporal": 0,
        "elemArr": len(elements),
        "padding": "nopad",
        "folds": {
            "dim_prop_func": [_affine(alpha) for alpha, _, _ in terms],
            "dim_prop_attr": [_dim_attribute(factor, name) for _, factor, name in terms],
        },
    }


def _labeled_ds(spec: SDSCSpec, position: int) -> Json:
    arg = spec.args[position]
    if arg.memory_space == "lx":
        memories = ["lx"]
    elif arg.indirect_kind == "index_tensor":
        memories = ["hbm"]
    else:
        memories = ["hbm", "lx"]
    return {
        "ldsIdx_": position,
        "dsName_": f"Tensor{position}",
        "dsType_": arg.layout,
        "scale_": [arg.scale[label] for label in spec.layouts[arg.layout].dims],
        "wordLength": arg.word_length,
        "dataFormat_": arg.data_format,
        "memOrg_": {memory: {"isPresent": 1} for memory in memories},
    }


# --- constants and the op ---------------------------------------------------------------------


def _constant(spec: SDSCSpec, constant: Constant) -> Json:
    return {
        "dataFormat_": constant.data_format,
        "name_": constant.name,
        "data_": {
            "dim_prop_func": [{"Const": {}}, {"Const": {}}, {"Map": {}}],
            "dim_prop_attr": _core_attributes(spec),
            "data_": {"[0, 0, 0]": [constant.bits]},
        },
    }


def _compute_op(spec: SDSCSpec) -> Json:
    op: Json = {
        "exUnit": spec.unit,
        "opFuncName": spec.op_func,
        "attributes_": {"dataFormat_": spec.data_format, "fidelity_": "regular"},
        "location": "Inner",
        "inputLabeledDs": [_tensor_reference(position) for position in spec.inputs],
        "outputLabeledDs": [_tensor_reference(spec.output)],
    }
    if spec.index_tensors:
        op["indirectAccessIndexLabeledDs"] = [
            _tensor_reference(position) for position in spec.index_tensors
        ]
    return op


def _affine(alpha: int) -> Json:
    return {"Affine": {"alpha_": alpha, "beta_": 0}}


def _dim_attribute(factor: int, label: str) -> Json:
    return {"factor_": factor, "label_": label}


def _core_attributes(spec: SDSCSpec) -> list[Json]:
    return [
        _dim_attribute(spec.cores, "core"),
        _dim_attribute(1, "corelet"),
        _dim_attribute(1, "time"),
    ]
