"""Construction and properties of SpyreTensorLayout."""

import copy
import pickle

import pytest
import torch

from torch_spyre import _C
from torch_spyre.testing import layouts
from torch_spyre.testing.layouts import WORKED_LAYOUTS

DataFormats = _C.DataFormats
ElementArrangement = _C.ElementArrangement
SpyreTensorLayout = _C.SpyreTensorLayout
FP16 = torch.float16

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support int64")


def fields(layout) -> tuple[list[int], list[int], str, str]:
    """Return the fields of a layout of the card or of the golden model."""
    if isinstance(layout, layouts.Layout):
        sizes, strides = list(layout.device_size), list(layout.stride_map)
        return sizes, strides, layout.format.name, layout.arrangement
    arrangement = layout.element_arrangement.name
    return layout.device_size, layout.stride_map, layout.device_dtype.name, arrangement


# --- Construction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("worked", WORKED_LAYOUTS, ids=repr)
def test_the_worked_layouts_that_are_published(worked):
    built = SpyreTensorLayout(worked.host_size, worked.host_strides, worked.dtype, worked.dim_order)
    assert built.device_size == list(worked.device_size)
    assert built.stride_map == list(worked.stride_map)
    assert built.device_dtype == _C.get_device_dtype(worked.dtype)
    assert built.element_arrangement == ElementArrangement.STANDARD


@pytest.mark.parametrize("worked", WORKED_LAYOUTS, ids=repr)
def test_the_short_form_is_the_identity_order_on_row_major_strides(worked):
    size, dtype = worked.host_size, worked.dtype
    short = SpyreTensorLayout(size, dtype)
    long = SpyreTensorLayout(size, layouts.contiguous_strides(size), dtype, tuple(range(len(size))))
    assert short == long
    assert hash(short) == hash(long)


def test_constructors_take_their_arguments_by_name():
    default = SpyreTensorLayout(host_size=[512, 256], dtype=FP16)
    ordered = SpyreTensorLayout(
        host_size=[512, 256], host_strides=[256, 1], dtype=FP16, dim_order=[0, 1]
    )
    explicit = SpyreTensorLayout(
        device_size=[4, 512, 64], stride_map=[64, 256, 1], device_dtype=DataFormats.SEN169_FP16
    )
    assert default == ordered == explicit


def test_both_long_forms_accept_an_arrangement():
    arrangement = ElementArrangement.FP32_TO_DL16
    ordered = SpyreTensorLayout([128], [1], FP16, [0], element_arrangement=arrangement)
    explicit = SpyreTensorLayout([2, 64], [64, 1], DataFormats.SEN169_FP16, arrangement)
    assert ordered == explicit
    assert ordered == SpyreTensorLayout([128], FP16).with_element_arrangement(arrangement)
    assert ordered != SpyreTensorLayout([128], FP16)


def test_torch_size_and_tuples_serve_as_sizes():
    host = torch.empty(5, 100)
    from_tensor = SpyreTensorLayout(host.size(), host.stride(), FP16, (1, 0))
    assert from_tensor == SpyreTensorLayout([5, 100], [100, 1], FP16, [1, 0])


def test_any_rank_has_a_layout():
    size = [2] * 8 + [70]
    assert fields(SpyreTensorLayout(size, FP16)) == fields(layouts.default_layout(size, FP16))
    sparse = [*range(9), -1]
    strides = list(layouts.contiguous_strides(size))
    expected = layouts.layout(size, strides, FP16, sparse)
    assert fields(SpyreTensorLayout(size, strides, FP16, sparse)) == fields(expected)


@pytest.mark.parametrize("order", [[0], [0, 1, 2], [0, 1, -1, -1], [0, 0], [0, 2], [-1, 0]])
def test_dim_order_that_is_not_a_permutation_raises(order):
    with pytest.raises((RuntimeError, ValueError), match="Incompatible host_size and dim_order"):
        SpyreTensorLayout([4, 5], [5, 1], FP16, order)


@pytest.mark.parametrize(
    ("device_size", "stride_map"),
    [([2, 64], [64]), ([2, 32], [32, 1]), ([2, 3, 65], [64, 128, 1]), ([], [])],
)
def test_an_explicit_layout_must_be_well_formed(device_size, stride_map):
    with pytest.raises((RuntimeError, ValueError)):
        SpyreTensorLayout(device_size, stride_map, DataFormats.SEN169_FP16)


def test_the_class_is_exported_by_the_device_module():
    assert torch.spyre.SpyreTensorLayout is SpyreTensorLayout
    assert torch.spyre.get_device_dtype(FP16) == DataFormats.SEN169_FP16


# --- The object -----------------------------------------------------------------------------------


def test_layouts_differing_in_any_field_are_unequal():
    base = SpyreTensorLayout([4, 512, 64], [64, 256, 1], DataFormats.SEN169_FP16)
    different = [
        SpyreTensorLayout([4, 256, 64], [64, 256, 1], DataFormats.SEN169_FP16),
        SpyreTensorLayout([4, 512, 64], [64, 512, 1], DataFormats.SEN169_FP16),
        SpyreTensorLayout([4, 512, 64], [64, 256, 1], DataFormats.SENINT16),
        base.with_element_arrangement(ElementArrangement.FP32_TO_DL16),
    ]
    assert all(base != other for other in different)
    assert len({base, *different, SpyreTensorLayout([512, 256], FP16)}) == 5


def test_layout_is_not_equal_to_other_types():
    assert SpyreTensorLayout([4], FP16) != "SpyreTensorLayout"
    assert SpyreTensorLayout([4], FP16) is not None


def test_fields_are_read_only():
    layout = SpyreTensorLayout([512, 256], FP16)
    for name in ("device_size", "stride_map", "device_dtype", "element_arrangement"):
        with pytest.raises(AttributeError):
            setattr(layout, name, getattr(layout, name))
    layout.device_size.append(3)
    assert layout.device_size == [4, 512, 64]


def test_elements_per_stick_come_from_the_format():
    assert SpyreTensorLayout([4], FP16).elems_per_stick() == 64
    assert SpyreTensorLayout([4], torch.float32).elems_per_stick() == 32
    assert SpyreTensorLayout([4], torch.int8).elems_per_stick() == 128


def test_the_printed_form_is_exact():
    layout = SpyreTensorLayout([512, 256], FP16)
    printed = (
        "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], "
        "device_dtype=DataFormats.SEN169_FP16)"
    )
    assert (str(layout), repr(layout)) == (printed, printed)


@pytest.mark.parametrize("arrangement", ["STANDARD", "DL16_TO_FP32", "FP32_TO_DL16", "EXX2"])
def test_the_printed_form_is_python_for_the_same_layout(arrangement):
    layout = SpyreTensorLayout(
        [5, 100, 150], torch.float32 if arrangement == "DL16_TO_FP32" else FP16
    )
    layout = layout.with_element_arrangement(getattr(ElementArrangement, arrangement))
    assert eval(repr(layout)) == layout


def from_state(state: tuple) -> SpyreTensorLayout:
    layout = SpyreTensorLayout.__new__(SpyreTensorLayout)
    layout.__setstate__(state)
    return layout


def test_pickled_and_copied_layouts_are_equal():
    layout = SpyreTensorLayout([5, 100], FP16)
    layout = layout.with_element_arrangement(ElementArrangement.FP32_TO_DL16)
    for again in (pickle.loads(pickle.dumps(layout)), copy.deepcopy(layout), copy.copy(layout)):
        assert again == layout
        assert hash(again) == hash(layout)


def test_the_state_is_version_three():
    layout = SpyreTensorLayout([512, 256], FP16)
    sizes, strides, dtype = [4, 512, 64], [64, 256, 1], DataFormats.SEN169_FP16
    assert layout.__getstate__() == (3, sizes, strides, dtype, ElementArrangement.STANDARD)


def test_states_of_every_version_load():
    sizes, strides, dtype = [4, 512, 64], [64, 256, 1], DataFormats.SEN169_FP16
    expected = SpyreTensorLayout([512, 256], FP16)
    assert from_state((1, sizes, [1, 0, 1], strides, dtype)) == expected
    assert from_state((2, sizes, strides, dtype)) == expected
    assert from_state((3, sizes, strides, dtype, ElementArrangement.STANDARD)) == expected
    arranged = from_state((3, sizes, strides, dtype, ElementArrangement.EXX2))
    assert arranged.element_arrangement == ElementArrangement.EXX2


@pytest.mark.parametrize(
    "state",
    [(), (3,), (2, [2, 64], [64, 1]), (4, [2, 64], [64, 1], 0, 0)]
    + [(2, size, [1] * len(size), DataFormats.SENINT8) for size in ([], [-3], [-3, 1, 1], [4, 5])],
)
def test_unknown_pickle_state_raises(state):
    with pytest.raises(ValueError):
        from_state(state)
