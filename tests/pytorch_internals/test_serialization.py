"""Saving, loading, pickling and copying tensors of the card, and their storages."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
from tensor_samples import DTYPES, assert_equal, counting, sample, shares_storage

from torch_spyre import _C

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

# The old format, and pickle with it, cannot load the last two from any device.
OLD_DTYPES = DTYPES[:-2]
SIZES = [(), (0,), (3, 0, 5), (1,), (64,), (65,), (4, 130), (3, 5, 7)]
FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
# The output features inside the stick, as nn.Linear weights are stored.
ROWS_IN_STICK = _C.SpyreTensorLayout([6, 130], [130, 1], torch.float16, [1, 0])


def saved(value, zipped=True):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def loaded(data, **options):
    return torch.load(io.BytesIO(data), **options)


def run(code, **variables):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


# --- torch.save and torch.load --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "zipped"), [(d, True) for d in DTYPES] + [(d, False) for d in OLD_DTYPES], ids=str
)
def test_every_dtype_and_size_round_trips_to_its_device(dtype, zipped):
    hosts = [sample(size, dtype) for size in SIZES]
    data = saved([host.to("spyre") for host in hosts], zipped)
    for weights_only in (True, False):
        for actual, host in zip(loaded(data, weights_only=weights_only), hosts, strict=True):
            assert_equal(actual, host)
            if zipped:  # the legacy format creates tensors before their storages
                assert actual.device_tensor_layout() == host.to("spyre").device_tensor_layout()


@FORMATS
@pytest.mark.parametrize(
    ("where", "device"),
    [
        ("cpu", "cpu"),
        ("spyre", "spyre:0"),
        ("spyre:0", "spyre:0"),
        (torch.device("cpu"), "cpu"),
        (torch.device("spyre"), "spyre:0"),
        ({"spyre:0": "cpu", "cpu": "spyre:0"}, None),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.cpu(), "cpu"),
        (lambda storage, location: None, "as saved"),
    ],
    ids=["cpu", "spyre", "spyre:0", "device cpu", "device", "dict", "keep", "callable", "none"],
)
@pytest.mark.parametrize("origin", ["spyre:0", "cpu"])
def test_map_location_selects_the_device(origin, where, device, zipped):
    host = counting(6, 130)
    expected = {None: "spyre:0" if origin == "cpu" else "cpu", "as saved": origin}.get(
        device, device
    )
    data = saved({"plain": host.to(origin), "other": host.t()[2:70].to(origin)}, zipped)
    actual = loaded(data, map_location=where)
    assert_equal(actual["plain"], host, expected)
    assert_equal(actual["other"], host.t()[2:70], expected)


def test_legacy_format_converts_only_the_tensors_of_the_file():
    # It makes tensors of uninitialised storages and fills them later.
    code = """
import io, torch
data = torch.arange(9)
for saved in (data, data.to("spyre")):
    buffer = io.BytesIO()
    torch.save({"a": saved, "b": saved[2:4]}, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    found = torch.load(buffer, map_location="spyre")
    assert found["a"].tolist() == list(range(9)) and found["b"].tolist() == [2, 3]
print("fine")
"""
    garbage = {"MALLOC_PERTURB_": "165", "TORCH_SPYRE_INT64_OVERFLOW": "error"}
    assert run(code, **garbage) == ["fine"]


def test_a_card_that_is_not_there_is_an_error_unless_mapped():
    data = saved(counting(9).to("spyre")).replace(b"spyre:0", b"spyre:5")
    with pytest.raises(RuntimeError, match="5"):
        loaded(data)
    assert_equal(loaded(data, map_location="spyre:0"), counting(9))


@FORMATS
@pytest.mark.parametrize("target", ["spyre:0", "cpu"])
def test_views_and_aliased_storages_stay_aliased(target, zipped):
    base = counting(6, 130).to("spyre")
    views = {"base": base, "rows": base[2:4], "columns": base.t()[5:9], "step": base[::2, 3::7]}
    expected = {name: view.cpu() for name, view in views.items()}
    actual = loaded(saved(views, zipped), map_location=target)
    for name, view in actual.items():
        assert_equal(view, expected[name], target)
        assert view.stride() == views[name].stride()
        assert shares_storage(view, actual["base"])
    actual["base"].fill_(3)
    assert bool((actual["step"].cpu() == 3).all())


@FORMATS
def test_saving_a_view_saves_its_storage(zipped):
    view = counting(6, 130).to("spyre")[2:4, 60:70]
    actual = loaded(saved(view, zipped))
    assert_equal(actual, view)
    assert actual.storage_offset() == view.storage_offset()
    assert torch.equal(actual.as_strided((6, 130), (130, 1), 0).cpu(), counting(6, 130))


def test_parameters_modules_and_optimizers_go_to_a_file_and_back():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(70, 9), torch.nn.BatchNorm1d(9)).to("spyre")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 70, device="spyre")).sum().backward()
    optimizer.step()
    data = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    for device in ("spyre:0", "cpu"):
        twin = torch.nn.Sequential(torch.nn.Linear(70, 9), torch.nn.BatchNorm1d(9)).to(device)
        twin_optimizer = torch.optim.AdamW(twin.parameters())
        actual = loaded(data, map_location=device)
        twin.load_state_dict(actual["model"])
        twin_optimizer.load_state_dict(actual["optimizer"])
        for name, value in model.state_dict().items():
            assert_equal(twin.state_dict()[name], value, device)
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            moments = twin_optimizer.state[theirs]
            assert_equal(moments["exp_avg"], optimizer.state[mine]["exp_avg"], device)
    parameter = loaded(saved(model[0].weight), weights_only=False)
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad
    assert_equal(parameter.detach(), model[0].weight.detach())
    whole = loaded(saved(model), weights_only=False)
    assert_equal(whole[1].running_mean, model[1].running_mean)


def test_requires_grad_survives_and_a_graph_does_not():
    leaf = counting(5, dtype=torch.float32).to("spyre").requires_grad_()
    assert loaded(saved(leaf)).requires_grad
    with pytest.raises(RuntimeError, match="leaf|graph"):
        copy.deepcopy(leaf * 2)


# --- pickle and deepcopy --------------------------------------------------------------------------


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))],
                         ids=["deepcopy", "pickle"])  # fmt: skip
@pytest.mark.parametrize("dtype", OLD_DTYPES, ids=str)
def test_copies_are_equal_and_do_not_alias(clone, dtype):
    for size in SIZES:
        host = sample(size, dtype)
        card = host.to("spyre")
        twin = clone(card)
        assert_equal(twin, host)
        assert twin.device_tensor_layout() == card.device_tensor_layout()
        twin.zero_()
        assert_equal(card, host)


def test_deepcopy_preserves_layouts_aliasing_and_parameters():
    host = counting(6, 130)
    card = host.to("spyre", device_layout=ROWS_IN_STICK)
    first, view, again = copy.deepcopy([card, card[1:3], card])
    assert first.device_tensor_layout() == ROWS_IN_STICK and first is again
    assert shares_storage(view, first) and not shares_storage(first, card)
    assert_equal(first, host)
    assert_equal(view, host[1:3])
    layer = torch.nn.Linear(130, 6, dtype=torch.float16).to("spyre")
    twin = copy.deepcopy(layer)
    assert isinstance(twin.weight, torch.nn.Parameter) and twin.weight is not layer.weight
    assert twin.weight.device_tensor_layout() == layer.weight.device_tensor_layout()
    assert_equal(twin.weight.detach(), layer.weight.detach())


@pytest.mark.parametrize("via", [copy.deepcopy, lambda t: loaded(saved(t)),
                                 lambda t: loaded(saved(t, False))],
                         ids=["deepcopy", "zip", "legacy"])  # fmt: skip
def test_tensor_with_a_custom_layout_round_trips(via):
    card = counting(4, 128).to("spyre")
    flat = _C.SpyreTensorLayout([8, 64], [64, 1], _C.DataFormats.SEN169_FP16)
    raw = _C.as_strided_with_layout(card, [512], [1], None, flat)
    given = counting(6, 130).to("spyre", device_layout=ROWS_IN_STICK)
    for tensor in (raw, raw[100:300], given, given.t(), card.view(torch.float16)):
        assert_equal(via(tensor), tensor.cpu())
        assert_equal(via(tensor.clone()), tensor.cpu())


def own_layout(host):
    """The elements of a 4x128 tensor in the order of its memory: a layout that no storage has."""
    flat = _C.SpyreTensorLayout([8, 64], [64, 1], _C.DataFormats.SEN169_FP16)
    return _C.as_strided_with_layout(host.to("spyre"), [512], [1], None, flat)


def test_deepcopy_distinguishes_tensors_with_custom_layouts():
    originals = [own_layout(counting(4, 128) + number) for number in range(8)]
    assert all(_C.has_own_layout(original) for original in originals)
    memo = {}
    copies = copy.deepcopy([*originals, *originals], memo)
    for original, actual, again in zip(originals, copies[:8], copies[8:], strict=True):
        assert actual is again and not shares_storage(actual, original)
        assert_equal(actual, original.cpu())
    # An id or address of something that is gone would be found again under another's name.
    alive = {id(original) for original in originals}
    alive |= {id(kept) for kept in memo[id(memo)]} | {id(memo)}
    assert {key for key in memo if isinstance(key, int)} <= alive
    storages = {original.untyped_storage()._cdata for original in originals}
    assert memo.get("torch", {}).keys() <= storages


def test_deepcopy_with_a_custom_layout_preserves_attributes():
    original = own_layout(counting(4, 128)).requires_grad_()
    original.note = ["kept"]
    (original * 3).sum().backward()
    twin = copy.deepcopy(original)
    assert twin.requires_grad and twin.note == ["kept"] and twin.note is not original.note
    assert_equal(twin.grad, torch.full((512,), 3, dtype=torch.float16))
    assert not shares_storage(twin.grad, original.grad)


def test_layouts_pickle_in_all_published_versions():
    layout = ROWS_IN_STICK
    assert pickle.loads(pickle.dumps(layout)) == copy.deepcopy(layout) == layout
    sizes, strides, kind = layout.device_size, layout.stride_map, layout.device_dtype
    for state in (
        (3, sizes, strides, kind, layout.element_arrangement),
        (2, sizes, strides, kind),
        (1, sizes, [1, 0, 1], strides, kind),
    ):
        made = _C.SpyreTensorLayout.__new__(_C.SpyreTensorLayout)
        made.__setstate__(state)
        assert made == layout
    for state in ((4, sizes, strides, kind, 0), (3, sizes), (), (2, sizes, strides, kind, 0, 0)):
        with pytest.raises(ValueError):
            _C.SpyreTensorLayout.__new__(_C.SpyreTensorLayout).__setstate__(state)
