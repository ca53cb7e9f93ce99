import functools
from pathlib import Path

import pytest

from torch_spyre import ktir

KERNELS = Path(__file__).parents[1] / "ktir" / "kernels"
ADD, TWO = str(KERNELS / "add.mlir"), str(KERNELS / "gather.mlir")
BAD = """func.func @f(%p: index) {
  %c0 = arith.constant 0 : index
  %v = ktdp.construct_memory_view %p, sizes: [8], strides: [1] : memref<9xf16>
  return
}
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path / "programs"))


@pytest.fixture
def spyre_ktir(spyre):
    return functools.partial(spyre, "ktir")


def test_verify_shows_the_functions(spyre_ktir):
    code, out, err = spyre_ktir("verify", TWO)
    assert (code, err) == (0, "")
    assert out.startswith("ok: 2 functions\n")
    assert "paged" in out and "1x1x1" in out and "batch: index" in out
    assert spyre_ktir("verify", ADD)[1].startswith("ok: 1 function\n")


def test_error_shows_location_and_excerpt(spyre_ktir, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text(BAD)
    code, out, err = spyre_ktir("verify", path)
    assert (code, out) == (1, "")
    first, excerpt, carets = err.rstrip("\n").split("\n")
    assert first.startswith(f"error: {path}:3:8: ktdp.construct_memory_view: ")
    assert excerpt.strip() == BAD.splitlines()[2].strip()
    assert set(carets.strip()) == {"^"}


def test_warnings_are_lines_on_stderr(spyre_ktir, tmp_path):
    path = tmp_path / "odd.mlir"
    path.write_text(
        "func.func @f() attributes {grid = [2, 2]} {\n"
        "  %x = ktdp.get_compute_tile_id : index\n  return\n}\n"
    )
    code, out, err = spyre_ktir("verify", path)
    assert code == 0
    assert out.startswith("ok: 1 function")
    assert err.startswith("warning: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["verify", "print", "run", "time", "compile"])
def test_a_file_that_cannot_be_read(spyre_ktir, tmp_path, command):
    for path in (tmp_path / "missing.mlir", tmp_path):
        code, out, err = spyre_ktir(command, path)
        assert (code, out) == (1, "")
        assert err.startswith(f"error: cannot read '{path}'")


@pytest.mark.parametrize("command", ["verify", "print", "run", "time", "compile"])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"nonsense\n", b"module {"])
def test_a_file_that_is_no_ktir(spyre_ktir, tmp_path, command, content):
    path = tmp_path / "file.mlir"
    path.write_bytes(content)
    code, _, err = spyre_ktir(command, path)
    assert code == 1
    assert err.startswith("error: ")


def test_print_gives_the_canonical_text(spyre_ktir, tmp_path):
    code, out, _ = spyre_ktir("print", ADD)
    assert code == 0
    assert out == str(ktir.load(Path(ADD))).rstrip("\n") + "\n"
    path = tmp_path / "printed.mlir"
    assert spyre_ktir("print", ADD, "--output", path) == (0, "", "")
    assert path.read_text() == out
    assert spyre_ktir("print", path)[1] == out


@pytest.mark.parametrize("command", [["print", ADD, "-o"], ["compile", ADD, "-o"]])
def test_an_output_that_cannot_be_written(spyre_ktir, tmp_path, command):
    code, _, err = spyre_ktir(*command, tmp_path / "no" / "where")
    assert code == 1
    assert err.startswith("error: ") and "cannot write" in err
    assert err.count("\n") == 1


def test_compile_prints_a_summary(spyre_ktir):
    code, out, err = spyre_ktir("compile", ADD)
    assert (code, err) == (0, "")
    assert out.startswith("add: 6 instructions, 256 bytes of scratchpad, hash ")


def test_compile_writes_the_program(spyre_ktir, tmp_path):
    path = tmp_path / "add.prg"
    assert spyre_ktir("compile", ADD, "-o", path)[0] == 0
    assert path.read_bytes() == ktir.load(Path(ADD)).compile("add").file


def test_compile_lists_the_program(spyre_ktir):
    code, out, _ = spyre_ktir("compile", ADD, "--listing")
    assert code == 0
    assert out == ktir.load(Path(ADD)).compile("add").listing()


def test_scalars_are_compiled_in(spyre_ktir):
    _, without, _ = spyre_ktir("compile", TWO, "-f", "paged", "--listing")
    _, out, _ = spyre_ktir(
        "compile", TWO, "-f", "paged", "--set", "batch=1", "--set", "%first=0x20", "--listing"
    )
    assert "%first" in without and "%batch" in without
    assert "%first" not in out and "32" in out


@pytest.mark.parametrize("command", ["run", "time", "compile"])
def test_several_functions_need_a_choice(spyre_ktir, command):
    code, _, err = spyre_ktir(command, TWO)
    assert code == 1
    assert "gather, paged" in err and "--function" in err


@pytest.mark.parametrize("command", ["run", "time", "compile"])
def test_a_function_that_is_not_there(spyre_ktir, command):
    code, _, err = spyre_ktir(command, TWO, "--function", "other")
    assert code == 1
    assert err.startswith("error: the module has no function 'other'; it has: gather, paged")


@pytest.mark.parametrize("command", ["run", "time", "compile"])
@pytest.mark.parametrize("assignment", ["x", "=3", "x=", "x=three", "x=1 2"])
def test_malformed_scalar_is_a_usage_error(spyre_ktir, command, assignment):
    code, _, err = spyre_ktir(command, ADD, "--set", assignment)
    assert code == 2
    assert "NAME=NUMBER" in err


@pytest.mark.parametrize("command", ["run", "time", "compile"])
def test_a_scalar_that_the_function_does_not_take(spyre_ktir, command):
    code, _, err = spyre_ktir(command, ADD, "--set", "zz=1")
    assert code == 1
    assert "add: no argument zz" in err


@pytest.mark.parametrize("command", ["run", "time"])
def test_a_kernel_that_cannot_run_is_an_error_without_a_traceback(spyre_ktir, tmp_path, command):
    path = tmp_path / "endless.mlir"
    path.write_text(
        "func.func @f() {\n  %c0 = arith.constant 0 : index\n  %c8 = arith.constant 8 : index\n"
        "  scf.for %i = %c0 to %c8 step %c0 {\n  }\n  return\n}\n"
    )
    code, out, err = spyre_ktir(command, path)
    assert (code, out) == (1, "")
    assert err.startswith("error: f: ") and "a loop has the step 0" in err
    assert "Traceback" not in err


def test_compile_error_shows_its_location(spyre_ktir):
    code, _, err = spyre_ktir("compile", KERNELS / "distributed_view.mlir", "-f", "open_width")
    assert code == 1
    first, excerpt, carets = err.rstrip("\n").split("\n")
    assert "distributed_view.mlir:28:11: ktdp.construct_access_tile: a size is known" in first
    assert "construct_access_tile" in excerpt
    assert set(carets.strip()) == {"^"}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense", ADD),
        ("verify",),
        ("verify", ADD, "--nonsense"),
        ("run", ADD, "--seed", "x"),
    ],
)
def test_usage_error_has_exit_code_2(spyre_ktir, words):
    assert spyre_ktir(*words)[0] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), (b"not a zip", "not an npz file"), (b"", "not an npz file")],
)
def test_arrays_that_cannot_be_read(spyre_ktir, tmp_path, content, message):
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    code, _, err = spyre_ktir("run", ADD, "--npz", path)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


def test_arrays_that_are_missing(spyre_ktir):
    code, _, err = spyre_ktir("run", ADD)
    assert code == 1
    assert err == "error: add: no value for a, b, c; use --npz or --random\n"
