"""Dumped kernels run alone, and compute the bits that they computed in their program."""

import json
import subprocess
import sys

import pytest
import torch
from varied_functions import FUNCTIONS

from torch_spyre import knobs
from torch_spyre.debugging import replay

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture
def dumped(monkeypatch, tmp_path):
    """Run a function under a dump, and return the folders of its kernels."""

    def run(call, tensors, *, is_compiled, **options):
        torch._dynamo.reset()
        monkeypatch.setenv("TORCH_SPYRE_DUMP", str(tmp_path / "dump"))
        with torch._inductor.config.patch(force_disable_caches=True):
            (torch.compile(call, **options) if is_compiled else call)(*tensors)
        torch.spyre.synchronize()
        monkeypatch.delenv("TORCH_SPYRE_DUMP")
        return sorted((tmp_path / "dump").iterdir())

    return run


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_case_in(8)
def test_replay_computes_the_recorded_bits(dumped, name, is_compiled, capsys):
    function = FUNCTIONS[name]
    folders = dumped(function.call, function.on_card(), is_compiled=is_compiled)
    assert folders
    for folder in folders:
        assert replay.main(folder) == 0, capsys.readouterr()
        assert "equal" in capsys.readouterr().out


def softmax(x):
    return (x * 2).softmax(-1)


@pytest.fixture
def softmax_folder(dumped):
    (folder,) = dumped(softmax, [torch.rand(70, 128).half().to("spyre")], is_compiled=True)
    return folder


def test_script_runs_alone_with_another_number_of_threads(softmax_folder, monkeypatch):
    monkeypatch.setenv("SPYRE_EMU_THREADS", "1")
    done = subprocess.run(
        [sys.executable, str(softmax_folder / "replay.py")],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "float16[70, 128]" in done.stdout and "largest error 0: equal" in done.stdout


def test_edited_kernel_diverges(softmax_folder, capsys):
    path = softmax_folder / "ktir.mlir"
    text = path.read_text()
    assert "math.exp " in text
    path.write_text(text.replace("math.exp ", "math.absf "))
    assert replay.main(softmax_folder) == 1
    assert "elements differ" in capsys.readouterr().out


def test_edit_that_cannot_be_compiled_is_an_error(softmax_folder, capsys):
    path = softmax_folder / "ktir.mlir"
    path.write_text(path.read_text().replace("math.exp ", "math.expp "))
    assert replay.main(softmax_folder) == 2
    assert "expp" in capsys.readouterr().err


def test_arrays_beyond_the_limit_are_left_out_and_it_is_said(dumped, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_SPYRE_DUMP_MB", "0")
    (folder,) = dumped(torch.exp, [torch.rand(9, 9, device="spyre")], is_compiled=False)
    assert not (folder / "inputs").exists()
    assert "TORCH_SPYRE_DUMP_MB=0" in json.loads((folder / "launch.json").read_text())["left_out"]
    assert replay.main(folder) == 2
    assert "TORCH_SPYRE_DUMP_MB=0" in capsys.readouterr().err


def test_kernel_that_was_not_launched_is_an_error(softmax_folder, capsys):
    (softmax_folder / "launch.json").unlink()
    assert replay.main(softmax_folder) == 2
    assert "never launched" in capsys.readouterr().err


def test_damaged_recording_is_an_error(softmax_folder, capsys):
    next((softmax_folder / "inputs").iterdir()).write_bytes(b"damaged")
    assert replay.main(softmax_folder) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_other_16_bit_format_is_an_error(softmax_folder, capsys):
    with knobs.override(SPYRE_EMU_FP16="ieee"):
        assert replay.main(softmax_folder) == 2
    assert "SPYRE_EMU_FP16=sen169" in capsys.readouterr().err


def test_first_launch_is_recorded(dumped):
    def several(x):
        for factor in (1, 2, 3):
            result = torch.exp(x * 0 + factor)
        return result

    folders = dumped(several, [torch.ones(9, 70, device="spyre")], is_compiled=False)
    (folder,) = [folder for folder in folders if "exp" in folder.name]
    launch = json.loads((folder / "launch.json").read_text())
    (output,) = [memory["output"] for memory in launch["memories"] if memory["output"]]
    values = replay.load_values(folder, output)
    assert torch.tensor(values.reshape(-1)[:70]).allclose(torch.tensor(1.0).exp().double())


def test_files_of_a_kernel_decode_to_its_values(softmax_folder):
    launch = json.loads((softmax_folder / "launch.json").read_text())
    (output,) = [memory["output"] for memory in launch["memories"] if memory["output"]]
    values = replay.load_values(softmax_folder, output)
    # The device size is 2 sticks, 70 rows and 64 lanes.
    assert values.shape == (2, 70, 64)
    assert torch.tensor(values).sum((0, 2)).allclose(torch.ones(70).double(), atol=1e-2)


def test_kernels_of_dynamic_graphs_are_dumped(dumped):
    (folder,) = dumped(
        softmax, [torch.rand(70, 128).half().to("spyre")], is_compiled=True, dynamic=True
    )
    assert replay.main(folder) == 0


CHILD = """
import torch
f = torch.compile(lambda x: (x.exp() + x).sum(0))
print(f(torch.ones(96, 70).half().to("spyre")).cpu().sum())
"""


def test_loop_ir_is_known_if_the_wrapper_comes_from_inductors_cache(tmp_path, run):
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    run(CHILD, **environment)
    run(CHILD, **environment, TORCH_SPYRE_DUMP=str(tmp_path / "dump"))
    (folder,) = (tmp_path / "dump").iterdir()
    assert "= exp %0 : float16" in (folder / "loop_ir.txt").read_text()
