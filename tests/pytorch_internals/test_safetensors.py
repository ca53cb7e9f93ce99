"""safetensors: straight to the card and from it, whenever the library is imported."""

import os
import subprocess
import sys

import pytest
import torch
from tensor_samples import DTYPES, assert_equal, sample

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]


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
    actual = safetensors.torch.load_file(file, device=device)
    assert actual.keys() == hosts.keys()
    for name, host in hosts.items():
        assert_equal(actual[name], host)
        assert_equal(safetensors.torch.load_file(file)[name], host, "cpu")
    with safetensors.safe_open(file, framework="pt", device=device) as opened:
        assert set(opened.keys()) == hosts.keys() and opened.metadata() == {"made": "here"}
        part = opened.get_slice("torch.float16")
        assert part.get_shape() == [4, 130] and part.get_dtype() == "F16"
        assert_equal(part[1:3, 60:70], hosts["torch.float16"][1:3, 60:70])
        assert_equal(opened.get_tensor("torch.int8"), hosts["torch.int8"])


def test_safetensors_for_other_devices_are_unaffected(safetensors, tmp_path):
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


# --- Importing the library ------------------------------------------------------------------------


def run_new(code, folder):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


# The weights of a model are padded on the card; saving them needs both patches.
SAVE_AND_LOAD = """
layer = torch.nn.Linear(3, 4).to("spyre")
safetensors.torch.save_model(layer, "file")
found = safetensors.torch.load_file("file", device="spyre")["weight"]
assert torch.equal(found.cpu(), layer.weight.detach().cpu())
with safetensors.safe_open("file", "pt", device="spyre") as opened:
    print(opened.get_tensor("weight").device)
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, safetensors.torch",
        "import torch; from safetensors.torch import save_file; import safetensors",
        "import importlib.util, torch; importlib.util.find_spec('safetensors.torch')\n"
        "import safetensors.torch",
        "import importlib.util, torch; importlib.util.find_spec('safetensors')\n"
        "import safetensors.torch",
        "import torch, safetensors.torch, importlib\n"
        "importlib.reload(safetensors); importlib.reload(safetensors.torch)",
        "import torch, threading\n"
        "def work():\n    import safetensors.torch\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "import safetensors.torch",
    ],
)
def test_models_are_saved_and_loaded_however_it_is_imported_after_torch(imports, tmp_path, run):
    assert run(imports + SAVE_AND_LOAD, tmp_path) == ["spyre:0"]


@pytest.mark.parametrize(
    "imports",
    ["import safetensors.torch, torch", "import safetensors, torch, safetensors.torch"],
)
def test_models_are_saved_and_loaded_if_it_is_imported_before_torch(imports, tmp_path):
    assert run_new(imports + SAVE_AND_LOAD, tmp_path) == ["spyre:0"]


def test_import_hook_does_not_affect_other_finders(tmp_path, run):
    code = """
import importlib.util, sys, torch
before = importlib.util.find_spec("safetensors")
assert "safetensors" not in sys.modules
assert before.loader.get_source("safetensors") and before.loader.is_package("safetensors")
import safetensors, safetensors.torch, importlib.machinery
for module in (safetensors, safetensors.torch):
    assert type(module.__spec__) is importlib.machinery.ModuleSpec
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__.loader is module.__loader__
print("fine")
"""
    assert run(code, tmp_path) == ["fine"]


def test_failed_import_can_be_retried(tmp_path, run):
    package = tmp_path / "safetensors"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('not today')")
    code = """
import sys, torch
try:
    import safetensors
except ImportError as error:
    print(error)
sys.path.remove("")
import importlib; importlib.invalidate_caches()
import safetensors.torch
""" + SAVE_AND_LOAD.replace('"file"', '"another"')
    assert run(code, tmp_path) == ["not", "today", "spyre:0"]


def test_safe_open_is_a_class_for_isinstance(tmp_path):
    import safetensors.torch
    import torch

    file = tmp_path / "file"
    safetensors.torch.save_file({"a": torch.ones(3)}, file)
    assert isinstance(safetensors.safe_open, type)
    assert safetensors.torch.safe_open is not None
    for device in ("cpu", "spyre"):
        with safetensors.safe_open(file, framework="pt", device=device) as opened:
            assert isinstance(opened, safetensors.safe_open)
            assert isinstance(opened, safetensors.torch.safe_open)
            assert issubclass(type(opened), safetensors.safe_open)
            assert opened.get_tensor("a").device.type == device
    assert not isinstance(3, safetensors.safe_open)
    assert not issubclass(int, safetensors.safe_open)
