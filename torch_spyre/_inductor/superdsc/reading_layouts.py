"""Layout classes of a SuperDSC file, and whether its folds agree with them."""

from collections.abc import Mapping

from torch_spyre._inductor.superdsc.fields import Field
from torch_spyre._inductor.superdsc.public_form import rounded_up
from torch_spyre._inductor.superdsc.reading_tensors import OpContext, WrittenTensor
from torch_spyre._inductor.superdsc.records import LayoutClass
from torch_spyre.constants import BYTES_IN_STICK


def read_layouts(dsc: Field, sizes: Mapping[str, int]) -> dict[str, LayoutClass]:
    layouts = {}
    for label, entry in dsc["primaryDsInfo_"].entries():
        order = entry["layoutDimOrder_"]
        dims = order.texts()
        if len(set(dims)) != len(dims) or not set(dims) <= set(sizes):
            order.fail(f"must be different dims of N_, {list(sizes)}")
        stick = entry["stickDimOrder_"].items(1)[0]
        if stick.text() not in dims:
            stick.fail("is not a dim of the layout")
        stick_size = entry["stickSize_"].items(1)[0].integer(1, BYTES_IN_STICK)
        if BYTES_IN_STICK % stick_size:
            entry["stickSize_"].fail(f"must divide {BYTES_IN_STICK}")
        layouts[label] = LayoutClass(tuple(dims), stick.text(), stick_size)
    return layouts


def check_folds(tensor: WrittenTensor, op: OpContext) -> None:
    """How coordinates are made of slices, sticks and lanes must agree with sizes and splits."""
    shown = tensor.node["coordinates_"]["coordInfo"]
    if sorted(dict(shown.entries())) != sorted(tensor.layout.dims):
        shown.fail(f"must have the dims {list(tensor.layout.dims)}")
    for label, entry in shown.entries():
        runs = tensor.scale[label] == 1
        size = op.sizes[label] // op.splits[label] if runs else 1
        if label == tensor.layout.stick:
            size = rounded_up(size, tensor.layout.stick_size)
        functions = entry["folds"]["dim_prop_func"].items()
        attributes = entry["folds"]["dim_prop_attr"].items(len(functions))
        covered = 1
        for function, attribute in zip(functions, attributes, strict=True):
            alpha = function["Affine"]["alpha_"].integer(0)
            function["Affine"]["beta_"].expect(0)
            factor = attribute["factor_"].integer(1)
            if attribute["label_"].text() == "core_fold":
                slices = op.splits[label] if runs else 1
                if factor != slices or (alpha != size and slices > 1):
                    entry.fail(f"core_fold must be {size} x {slices}")
            elif attribute["label_"].text().startswith("elem_arr_"):
                covered *= factor
        if covered != size:
            entry.fail(f"covers {covered} indices of {size} on each core")
