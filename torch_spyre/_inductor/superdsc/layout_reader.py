"""Reads the layout classes of a SuperDSC file, and checks `coordInfo` against them."""

from collections.abc import Mapping

from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.superdsc.public_form import padded_to_sticks
from torch_spyre._inductor.superdsc.sdsc_spec import LayoutClass
from torch_spyre._inductor.superdsc.tensor_reader import OpContext, ParsedTensor
from torch_spyre.constants import BYTES_IN_STICK


def read_layouts(dsc: Field, sizes: Mapping[str, int]) -> dict[str, LayoutClass]:
    """Return the layout classes by label."""
    layouts = {}
    for label, entry in dsc["primaryDsInfo_"].entries():
        order = entry["layoutDimOrder_"]
        dims = order.strings()
        if len(set(dims)) != len(dims) or not set(dims) <= set(sizes):
            order.fail(f"must be distinct dims of N_, {list(sizes)}")
        stick = entry["stickDimOrder_"].elements(1)[0]
        if stick.string() not in dims:
            stick.fail("is not a dim of the layout")
        stick_size = entry["stickSize_"].elements(1)[0].integer(1, BYTES_IN_STICK)
        if BYTES_IN_STICK % stick_size:
            entry["stickSize_"].fail(f"must divide {BYTES_IN_STICK}")
        layouts[label] = LayoutClass(tuple(dims), stick.string(), stick_size)
    return layouts


def check_coordinate_info(tensor: ParsedTensor, op: OpContext) -> None:
    """Check that the maps from core, stick and lane to coordinates match sizes and splits."""
    info = tensor.node["coordinates_"]["coordInfo"]
    if tensor.extended("coordinates") is not None and not dict(info.entries()):
        return
    if sorted(dict(info.entries())) != sorted(tensor.layout.dims):
        info.fail(f"must have the dims {list(tensor.layout.dims)}")
    for label, entry in info.entries():
        is_indexed = tensor.scale[label] == 1
        slice_size = op.sizes[label] // op.splits[label] if is_indexed else 1
        # A slice in the scratchpad may end within a stick.
        size = padded_to_sticks(slice_size, label, tensor.layout.stick, tensor.layout.stick_size)
        functions = entry["folds"]["dim_prop_func"].elements()
        attributes = entry["folds"]["dim_prop_attr"].elements(len(functions))
        covered = 1
        for function, attribute in zip(functions, attributes, strict=True):
            alpha = function["Affine"]["alpha_"].integer(0)
            function["Affine"]["beta_"].expect(0)
            factor = attribute["factor_"].integer(1)
            if attribute["label_"].string() == "core_fold":
                slices = op.splits[label] if is_indexed else 1
                if factor != slices or (alpha != slice_size and slices > 1):
                    entry.fail(f"core_fold must be {slice_size} x {slices}")
            elif attribute["label_"].string().startswith("elem_arr_"):
                covered *= factor
        if covered != size:
            entry.fail(f"covers {covered} indices per core instead of {size}")
