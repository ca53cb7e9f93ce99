"""Saving, loading, pickling and copying tensors of the card, and their storages."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch

from torch_spyre import _C

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int8, torch.uint8,
    torch.int16, torch.int32, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2fnuz,
]  # fmt: skip
# The old format, and pickle with it, cannot load the last two from any device.
OLD_DTYPES = DTYPES[:-2]
SIZES = [(), (0,), (3, 0, 5), (1,), (64,), (65,), (4, 130), (3, 5, 7)]
FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
# The output features inside the stick, as nn.Linear weights are stored.
ROWS_IN_STICK = _C.SpyreTensorLayout([6, 130], [130, 1], torch.float16, [1, 0])


def sample(size, dtype):
    """Values that every format holds exactly."""
    values = torch.arange(torch.Size(size).numel()).remainder(2 if dtype is torch.bool else 8)
    return values.reshape(size).to(torch.float32).to(dtype)


def counting(*size, dtype=torch.float16):
    return torch.arange(torch.Size(size).numel()).remainder(1021).reshape(size).to(dtype)


def saved(value, zipped=True):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def loaded(data, **options):
    return torch.load(io.BytesIO(data), **options)


def assert_equal(found, expected, device="spyre:0"):
    assert str(found.device) == device
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    plain = [t.cpu().view(torch.uint8) if t.is_floating_point() and t.itemsize == 1 else t.cpu()
             for t in (found, expected)]  # fmt: skip
    assert torch.equal(*plain)


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


def shares_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


# --- torch.save and torch.load --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "zipped"), [(d, True) for d in DTYPES] + [(d, False) for d in OLD_DTYPES], ids=str
)
def test_every_dtype_and_size_comes_back_where_it_was(dtype, zipped):
    hosts = [sample(size, dtype) for size in SIZES]
    data = saved([host.to("spyre") for host in hosts], zipped)
    for weights_only in (True, False):
        for found, host in zip(loaded(data, weights_only=weights_only), hosts, strict=True):
            assert_equal(found, host)
            if zipped:  # the old format makes tensors before it knows their storages
                assert found.device_tensor_layout() == host.to("spyre").device_tensor_layout()


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
def test_map_location_says_where_tensors_go(origin, where, device, zipped):
    host = counting(6, 130)
    expected = {None: "spyre:0" if origin == "cpu" else "cpu", "as saved": origin}.get(
        device, device
    )
    data = saved({"plain": host.to(origin), "other": host.t()[2:70].to(origin)}, zipped)
    found = loaded(data, map_location=where)
    assert_equal(found["plain"], host, expected)
    assert_equal(found["other"], host.t()[2:70], expected)


def test_the_old_format_converts_nothing_but_what_the_file_holds():
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
def test_views_and_shared_storages_keep_sharing(target, zipped):
    base = counting(6, 130).to("spyre")
    views = {"base": base, "rows": base[2:4], "columns": base.t()[5:9], "step": base[::2, 3::7]}
    expected = {name: view.cpu() for name, view in views.items()}
    found = loaded(saved(views, zipped), map_location=target)
    for name, view in found.items():
        assert_equal(view, expected[name], target)
        assert view.stride() == views[name].stride()
        assert shares_storage(view, found["base"])
    found["base"].fill_(3)
    assert bool((found["step"].cpu() == 3).all())


@FORMATS
def test_a_view_alone_brings_its_storage_along(zipped):
    view = counting(6, 130).to("spyre")[2:4, 60:70]
    found = loaded(saved(view, zipped))
    assert_equal(found, view)
    assert found.storage_offset() == view.storage_offset()
    assert torch.equal(found.as_strided((6, 130), (130, 1), 0).cpu(), counting(6, 130))


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
        found = loaded(data, map_location=device)
        twin.load_state_dict(found["model"])
        twin_optimizer.load_state_dict(found["optimizer"])
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
def test_copies_of_objects_are_equal_and_apart(clone, dtype):
    for size in SIZES:
        host = sample(size, dtype)
        card = host.to("spyre")
        twin = clone(card)
        assert_equal(twin, host)
        assert twin.device_tensor_layout() == card.device_tensor_layout()
        twin.zero_()
        assert_equal(card, host)


def test_deepcopy_keeps_layouts_sharing_and_parameters():
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
def test_a_tensor_with_a_layout_of_its_own_keeps_its_values(via):
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


def test_deepcopy_takes_no_tensor_with_a_layout_of_its_own_for_another():
    originals = [own_layout(counting(4, 128) + number) for number in range(8)]
    assert all(_C.has_own_layout(original) for original in originals)
    memo = {}
    copies = copy.deepcopy([*originals, *originals], memo)
    for original, found, again in zip(originals, copies[:8], copies[8:], strict=True):
        assert found is again and not shares_storage(found, original)
        assert_equal(found, original.cpu())
    # An id or address of something that is gone would be found again under another's name.
    alive = {id(original) for original in originals}
    alive |= {id(kept) for kept in memo[id(memo)]} | {id(memo)}
    assert {key for key in memo if isinstance(key, int)} <= alive
    storages = {original.untyped_storage()._cdata for original in originals}
    assert memo.get("torch", {}).keys() <= storages


def test_deepcopy_of_a_tensor_with_a_layout_of_its_own_brings_along_what_belongs_to_it():
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


# --- safetensors ----------------------------------------------------------------------------------


@pytest.fixture
def safetensors():
    import safetensors.torch

    return safetensors


@pytest.mark.parametrize("device", ["spyre", "spyre:0", torch.device("spyre:0")], ids=repr)
def test_safetensors_load_straight_to_the_card(safetensors, device, tmp_path):
    file = tmp_path / "model.safetensors"
    dtypes = [dtype for dtype in DTYPES if dtype is not torch.float8_e5m2fnuz]
    hosts = {str(dtype): sample((4, 130), dtype) for dtype in dtypes}
    hosts |= {"empty": torch.empty(0, 3), "scalar": torch.tensor(2.5)}
    safetensors.torch.save_file(
        {name: host.to("spyre") for name, host in hosts.items()}, file, {"made": "here"}
    )
    found = safetensors.torch.load_file(file, device=device)
    assert found.keys() == hosts.keys()
    for name, host in hosts.items():
        assert_equal(found[name], host)
        assert_equal(safetensors.torch.load_file(file)[name], host, "cpu")
    with safetensors.safe_open(file, framework="pt", device=device) as opened:
        assert set(opened.keys()) == hosts.keys() and opened.metadata() == {"made": "here"}
        part = opened.get_slice("torch.float16")
        assert part.get_shape() == [4, 130] and part.get_dtype() == "F16"
        assert_equal(part[1:3, 60:70], hosts["torch.float16"][1:3, 60:70])
        assert_equal(opened.get_tensor("torch.int8"), hosts["torch.int8"])


def test_safetensors_to_the_cpu_and_to_unknown_devices_are_as_before(safetensors, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_model(torch.nn.Linear(3, 4).to("spyre"), str(file))
    with safetensors.safe_open(file, "pt") as opened:
        assert opened.get_tensor("weight").device.type == "cpu"
    layer = torch.nn.Linear(3, 4)
    safetensors.torch.load_model(layer, str(file), device="spyre")
    data = safetensors.torch.save({"a": torch.ones(3, device="spyre")})
    assert safetensors.torch.load(data)["a"].tolist() == [1, 1, 1]
    for bad in ("spyre:7", "nowhere"):
        with pytest.raises((RuntimeError, safetensors.SafetensorError)):
            safetensors.torch.load_file(file, device=bad)


# --- Storages -------------------------------------------------------------------------------------


def test_a_storage_without_a_dtype_holds_plain_bytes():
    storage = torch.UntypedStorage(200, device="spyre")
    assert storage.nbytes() == 200 and storage.device == torch.device("spyre", 0)
    data = torch.arange(200, dtype=torch.uint8)
    storage.copy_(data.untyped_storage())
    assert storage.cpu().tolist() == data.tolist() == storage.tolist()
    assert storage[7] == 7 and len(storage) == 200
    storage.fill_(5)
    assert storage.tolist() == [5] * 200
    twin = storage.clone()
    twin.fill_(6)
    assert storage[0] == 5 and twin.cpu()[0] == 6


def test_bytes_become_elements_when_a_tensor_takes_the_storage():
    host = counting(6, 130)
    storage = torch.UntypedStorage(host.nbytes, device="spyre")
    storage.copy_(host.untyped_storage())
    taken = torch.empty(0, dtype=torch.float16, device="spyre").set_(storage, 0, (6, 130), (130, 1))
    assert_equal(taken, host)
    assert torch.equal(taken.cpu(), host) and taken.untyped_storage().nbytes() >= host.nbytes


def test_the_bytes_of_a_typed_storage_are_those_of_the_host():
    for dtype in (torch.float32, torch.int64, torch.int16, torch.bool, torch.bfloat16):
        host = sample((4, 130), dtype)
        image = host.to("spyre").untyped_storage().cpu()
        assert image.tolist()[: host.nbytes] == host.untyped_storage().tolist()


@pytest.mark.parametrize("grown", [16, 48, 4000])
def test_a_storage_resized_keeps_what_fits(grown):
    for dtype in (torch.float16, torch.float32, torch.int64):
        card = sample((8,), dtype).to("spyre")
        card.untyped_storage().resize_(grown)
        assert card.untyped_storage().nbytes() >= grown
        kept = min(8, grown // dtype.itemsize)
        assert torch.equal(card.as_strided((kept,), (1,)).cpu(), sample((8,), dtype)[:kept])
    raw = torch.UntypedStorage(32, device="spyre")
    raw.fill_(9)
    raw.resize_(grown)
    assert raw.nbytes() == grown and raw.tolist()[: min(32, grown)] == [9] * min(32, grown)


def test_a_storage_resized_to_nothing_and_back_can_be_filled_again():
    card = counting(6, 130).to("spyre")
    bytes_before, allocated = card.untyped_storage().nbytes(), torch.spyre.memory_allocated()
    card.untyped_storage().resize_(0)
    assert torch.spyre.memory_allocated() == allocated - bytes_before
    card.untyped_storage().resize_(bytes_before)
    card.copy_(counting(6, 130))
    assert_equal(card, counting(6, 130))


def test_set_in_all_four_forms():
    source = counting(6, 130).to("spyre")
    storage = source.untyped_storage()
    empty = lambda: torch.empty(0, dtype=torch.float16, device="spyre")  # noqa: E731
    assert empty().set_().shape == (0,)
    assert_equal(empty().set_(storage)[:780], counting(780))
    assert_equal(empty().set_(source.t()), counting(6, 130).t())
    part = empty().set_(storage, 130, (2, 3), (260, 2))
    assert_equal(part, counting(6, 130)[1:5:2, :6:2])
    for tensor in (empty().set_(storage), empty().set_(source), part):
        assert shares_storage(tensor, source)
    part.fill_(-1)
    assert source[1, 4].item() == -1 and source[3, 0].item() == -1 and source[1, 1].item() == 131


@pytest.mark.parametrize("size", [(4,), (2, 3), (6, 130), (780,), (9, 200), (0,), ()])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_resize_keeps_elements_at_their_flat_positions(dtype, size):
    host = counting(6, 130, dtype=dtype)
    card = host.to("spyre")
    memory = card.untyped_storage().nbytes()
    assert card.resize_(size) is card and card.shape == size and card.is_contiguous()
    common = min(780, torch.Size(size).numel())
    assert torch.equal(card.cpu().flatten()[:common], host.flatten()[:common])
    if common < 780:
        assert card.untyped_storage().nbytes() == memory
        assert_equal(card.resize_(6, 130), host)


def test_resize_of_a_view_moves_only_the_view():
    card = counting(6, 130).to("spyre")
    view = card[2:]
    view.resize_(3)
    assert view.tolist() == [260, 261, 262]
    assert_equal(card, counting(6, 130))
