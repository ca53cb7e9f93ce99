"""Tests of `spyre ktir`: bounds, random arguments, standard input, suggestions and colours."""

import functools
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_texts import kernel, load, store

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "ktir").glob("*.mlir"))
SOFTMAX = ROOT / "examples" / "ktir" / "softmax.mlir"
COPY = kernel("px; py", load("x", [4, 64]), store("x", [4, 64], base="py"), grid=[2, 2])
GATHER = kernel(
    "px; pi; py",
    "%table = ktdp.construct_memory_view %px, sizes: [4, 64], strides: [64, 1] "
    "{memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>",
    "%ids = ktdp.construct_memory_view %pi, sizes: [2], strides: [1] "
    "{memory_space = #ktdp.memory_space<global>} : memref<2xi32>",
    "%from = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) "
    "%table[ind(%ids[%r]), (%c)] {variables_space_set = "
    "affine_set<(r, c) : (r >= 0, -r + LAST >= 0, c >= 0, -c + 63 >= 0)>} "
    ": memref<4x64xf16>, memref<2xi32> -> !ktdp.access_tile<ROWSx64xindex>",
    "%x = ktdp.load %from : <ROWSx64xindex> -> tensor<ROWSx64xf16>",
    "%ys = ktdp.construct_memory_view %py, sizes: [ROWS, 64], strides: [64, 1] "
    "{memory_space = #ktdp.memory_space<global>} : memref<ROWSx64xf16>",
    "%to = ktdp.construct_access_tile %ys[%c0, %c0] {access_tile_set = "
    "affine_set<(r, c) : (r >= 0, -r + LAST >= 0, c >= 0, -c + 63 >= 0)>} "
    ": memref<ROWSx64xf16> -> !ktdp.access_tile<ROWSx64xindex>",
    "ktdp.store %x, %to : tensor<ROWSx64xf16>, <ROWSx64xindex>",
)


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path / "programs"))


@pytest.fixture
def spyre_ktir(spyre):
    return functools.partial(spyre, "ktir")


@pytest.fixture
def text_file(tmp_path):
    def write(text):
        path = tmp_path / "kernel.mlir"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs_on_random_arrays_within_its_views(spyre_ktir, path):
    code, out, err = spyre_ktir("run", path, "--random", "--check-bounds")
    assert (code, err) == (0, "")
    assert "device time" in out
    assert spyre_ktir("verify", path, "--check-bounds")[0] == 0


@pytest.mark.parametrize("command", [["verify"], ["run", "--random"]])
def test_a_tile_beyond_its_view_is_reported(spyre_ktir, text_file, command):
    beyond = COPY.replace("%x_view[%c0, %c0]", "%x_view[%c1, %c0]")
    assert beyond != COPY
    path = text_file(beyond)
    assert spyre_ktir(*command, path)[0] == 0
    code, _, err = spyre_ktir(*command, path, "--check-bounds")
    line = next(n for n, text in enumerate(beyond.split("\n"), 1) if "ktdp.load" in text)
    assert code == 1
    assert f"kernel.mlir:{line}:" in err and "ktdp.load: out of bounds on core 0" in err
    assert "grid point (0, 0, 0)" in err and "coordinate 4 is out of range in dimension 0" in err
    assert "the view %x_view has extents [4, 64]" in err


def test_the_grid_point_of_the_core_is_reported(spyre_ktir, text_file):
    beyond = COPY.replace("%x_view[%c0, %c0]", "%x_view[%j, %c0]").replace(
        "  %c1 =", "  %i, %j = ktdp.get_compute_tile_id : index, index\n  %c1 ="
    )
    code, _, err = spyre_ktir("verify", text_file(beyond), "--check-bounds")
    assert code == 1
    assert "core 2, grid point (0, 1, 0)" in err or "core 3, grid point (1, 1, 0)" in err


def test_a_negative_coordinate_is_reported(spyre_ktir, text_file):
    beyond = COPY.replace("%x_out[%c0, %c0]", "%x_out[%c0 - 1, %c0]")
    code, _, err = spyre_ktir("verify", text_file(beyond), "--check-bounds")
    assert code == 1 and "ktdp.store: out of bounds" in err and "coordinate -1" in err


def test_indices_beyond_their_view_are_reported_at_run_time(spyre_ktir, text_file):
    inside = GATHER.replace("LAST", "1").replace("ROWS", "2")
    assert spyre_ktir("run", text_file(inside), "--random", "--check-bounds")[0] == 0
    code, _, err = spyre_ktir(
        "run", text_file(GATHER.replace("LAST", "2").replace("ROWS", "3")),
        "--random", "--check-bounds",
    )  # fmt: skip
    assert code == 1
    assert "the position of an index 2 is out of range in dimension 0 of size 2" in err


def test_random_indices_are_below_the_size_that_they_index(spyre_ktir, text_file):
    path = text_file(GATHER.replace("LAST", "1").replace("ROWS", "2"))
    for seed in range(5):
        assert spyre_ktir("run", path, "--random", "--seed", seed)[0] == 0


def test_an_array_smaller_than_its_view_is_reported():
    import numpy as np

    from torch_spyre import ktir

    two_views = COPY.replace("sizes: [4, 64], strides: [64, 1]", "sizes: [4, 64], strides: [80, 1]")
    with pytest.raises(ktir.KtirError, match="px has 256 elements, and a view of it ends at"):
        ktir.load(two_views).check_bounds("f", px=np.zeros(256, np.float16), py=np.zeros(304))


def test_a_missing_scalar_is_named(spyre_ktir, text_file):
    text = kernel(
        "px; py; n",
        load("x", [4, 64]),
        "scf.for %i = %c0 to %n step %c1 {",
        store("x", [4, 64], base="py"),
        "}",
    )
    path = text_file(text)
    code, _, err = spyre_ktir("run", path, "--random")
    assert (code, err) == (1, "error: f: no value for n; use --set n=NUMBER\n")
    assert spyre_ktir("run", path, "--random", "--set", "n=2")[0] == 0
    assert "--set n=NUMBER" in spyre_ktir("verify", path, "--check-bounds")[2]


def test_every_dumped_kernel_runs_on_random_arrays(spyre_ktir, tmp_path):
    code = (
        "import torch, torch.nn.functional as F\n"
        "x = torch.randn(7, 70).half().to('spyre'); i = torch.tensor([1, 2, 3]).to('spyre')\n"
        "torch.compile(lambda x, i: F.softmax(F.embedding(i, x), -1) + 1)(x, i)\n"
        "x.cumsum(0); x.argmax(-1); F.layer_norm(x, (70,)); x.index_add(0, i, x[:3]); x.sort(-1)\n"
        "q = torch.randn(1, 2, 16, 64).half().to('spyre')\n"
        "F.scaled_dot_product_attention(q, q, q, is_causal=True)\n"
    )
    dump = tmp_path / "dump"
    settings = {"TORCH_SPYRE_DUMP": str(dump), "TORCH_SPYRE_EAGER": "native"}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, check=True)
    paths = sorted(dump.glob("*/ktir.mlir"))
    assert len(paths) > 5
    for path in paths:
        code, _, err = spyre_ktir("run", path, "--random")
        assert code == 0, (path, err)


@pytest.mark.parametrize("command", [["verify"], ["print"], ["compile"], ["time"]])
def test_a_dash_reads_standard_input(spyre_ktir, monkeypatch, command):
    def from_stdin(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return spyre_ktir(*command, "-")

    code, out, _ = from_stdin(SOFTMAX.read_bytes())
    assert code == 0 and out
    assert from_stdin(b"nonsense")[2].startswith("error: <stdin>:1:1: ")
    assert "standard input" in from_stdin(b"\xff\xfe")[2]


def test_run_reads_standard_input(spyre_ktir, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COPY.encode())))
    assert spyre_ktir("run", "-", "--random")[0] == 0


@pytest.mark.parametrize(
    ("written", "misspelled", "hint"),
    [
        ("ktdp.load %xt", "ktdp.lod %xt", "unknown op ktdp.lod; did you mean ktdp.load?"),
        (
            "math.exp %",
            "arith.exp %",
            "unknown op arith.exp; did you mean linalg.exp or math.exp?",
        ),
        ("access_tile_set", "acces_tile_set", "did you mean access_tile_set"),
        ("coordinate_set", "coordinates_set", "did you mean coordinate_set?"),
        ("grid =", "gird =", "unknown attribute gird; did you mean grid?"),
    ],
)
def test_misspelled_names_get_a_suggestion(spyre_ktir, text_file, written, misspelled, hint):
    text = SOFTMAX.read_text()
    code, _, err = spyre_ktir("verify", text_file(text.replace(written, misspelled)))
    assert code == 1 and hint in err


def test_misspelled_functions_and_arguments_get_a_suggestion(spyre_ktir):
    assert "did you mean softmax?" in spyre_ktir("run", SOFTMAX, "-f", "sofmax", "--random")[2]
    layer_norm = SOFTMAX.with_name("layer_norm.mlir")
    assert "did you mean epsilon?" in spyre_ktir("time", layer_norm, "--set", "epsilan=1")[2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            kernel("px", "%t = arith.constant dense<[1.0, 2.0]> : tensor<2xf16>",
                   "%s = math.atan %t : tensor<2xf16>"),
            "no instruction",
        ),
        (kernel("px", load("x", [2048, 1024])), "scratchpad"),
        (COPY.replace("grid = [2, 2]", "grid = [64]"), "the card has 32"),
    ],
    ids=["op", "scratchpad", "grid"],
)  # fmt: skip
def test_verify_refuses_what_compile_refuses(spyre_ktir, text_file, text, problem):
    path = text_file(text)
    compiled, verified = spyre_ktir("compile", path), spyre_ktir("verify", path)
    assert (compiled[0], verified[0]) == (1, 1)
    assert problem in compiled[2] and compiled[2] == verified[2]


@pytest.mark.parametrize(("no_color", "is_coloured"), [(None, True), ("1", False)])
def test_errors_are_coloured_on_a_terminal(no_color, is_coloured):
    import pty

    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm", **({"NO_COLOR": no_color} if no_color else {})}
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "torch_spyre.tools.cli", "ktir", "verify", "missing.mlir"]
    done = subprocess.run(command, stderr=slave, env=environment)
    os.close(slave)
    shown = os.read(master, 4096).decode()
    os.close(master)
    assert done.returncode == 1 and "cannot read 'missing.mlir'" in shown
    assert ("\x1b[1;31m" in shown) is is_coloured
    piped = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "\x1b" not in piped.stderr


def test_the_version_is_printed(spyre):
    from torch_spyre import __version__

    assert spyre("--version") == (0, f"spyre {__version__}\n", "")
