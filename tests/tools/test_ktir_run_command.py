"""`spyre ktir run` and `time`, on the emulated card."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from torch_spyre import ktir

KERNELS = Path(__file__).parents[1] / "ktir" / "kernels"
ADD, SOFTMAX, GATHER = (KERNELS / f"{name}.mlir" for name in ("add", "softmax", "gather"))

BF16 = """
func.func @f(%p: index) {
  %c0 = arith.constant 0 : index
  %v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] : memref<64xbf16>
  %t = ktdp.construct_access_tile %v[%c0] {access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>} : memref<64xbf16> -> <64xindex>
  %x = ktdp.load %t : <64xindex> -> tensor<64xbf16>
  %y = arith.addf %x, %x : tensor<64xbf16>
  ktdp.store %y, %t : tensor<64xbf16>, <64xindex>
  return
}
"""  # noqa: E501  (one operation a line, as KTIR is printed)


@pytest.fixture
def spyre_ktir(spyre):
    return functools.partial(spyre, "ktir")


def row(out, name):
    (line,) = (line for line in out.splitlines() if line.split()[:1] == [name])
    return line.split()


def test_random_arrays_have_the_shapes_of_the_views_and_depend_on_the_seed(spyre_ktir):
    code, first, err = spyre_ktir("run", ADD, "--random")
    assert (code, err) == (0, "")
    assert row(first, "a")[1:3] == ["1024x64", "float16"]
    assert row(first, "a") != row(first, "b")
    assert row(spyre_ktir("run", ADD, "--random")[1], "c") == row(first, "c")
    assert row(spyre_ktir("run", ADD, "--random", "--seed", 1)[1], "c") != row(first, "c")


def test_device_time_and_counters_are_shown(spyre_ktir):
    _, out, _ = spyre_ktir("run", ADD, "--random")
    assert float(row(out, "device")[2]) > 0
    assert row(out, "launches")[1] == "1"


def test_arrays_are_read_from_and_written_to_files(spyre_ktir, tmp_path):
    a, b = (np.full((1024, 64), value, np.float16) for value in (1.5, 2))
    b[3, 4] = np.nan
    given, taken = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, a=a, b=b, c=np.zeros_like(a))
    code, out, err = spyre_ktir("run", ADD, "--npz", given, "--out", taken)
    assert (code, err) == (0, "")
    assert row(out, "c")[3:] == ["3.5", "3.5", "3.5", "1"]
    with np.load(taken) as arrays:
        assert sorted(arrays.files) == ["a", "b", "c"]
        assert np.array_equal(arrays["c"], a + b, equal_nan=True)


def test_files_and_random_arrays_go_together(spyre_ktir, tmp_path):
    given = tmp_path / "in.npz"
    np.savez(given, columns=np.int32(256), x=np.zeros((512, 256), np.float16))
    code, out, err = spyre_ktir("run", SOFTMAX, "--npz", given, "--random")
    assert (code, err) == (0, "")
    assert row(out, "y")[3:5] == ["0.00390625", "0.00390625"]


def test_types_that_numpy_lacks_are_converted(spyre_ktir, tmp_path):
    kernel, given = tmp_path / "bf16.mlir", tmp_path / "in.npz"
    kernel.write_text(BF16)
    np.savez(given, p=np.arange(64, dtype=np.float32))
    code, out, err = spyre_ktir("run", kernel, "--npz", given)
    assert (code, err) == (0, "")
    assert row(out, "p")[2:5] == ["float32", "0", "126"]
    assert spyre_ktir("run", kernel, "--random")[0] == 0


def test_arrays_of_wrong_shape_or_dtype_are_rejected(spyre_ktir, tmp_path):
    given = tmp_path / "in.npz"
    for wrong in (np.zeros((4, 64), np.float16), np.zeros((1024, 64), np.float32)):
        np.savez(given, a=wrong)
        code, _, err = spyre_ktir("run", ADD, "--npz", given, "--random")
        assert code == 1
        assert err.startswith("error: add: a ")


def test_an_error_of_the_card_is_no_traceback(spyre_ktir):
    code, _, err = spyre_ktir(
        "run", GATHER, "-f", "paged", "--random", "--set", "batch=-1", "--set", "first=0"
    )
    assert code == 1
    assert err.startswith("error: paged: ")
    assert "ktdp.load at 31:13" in err
    assert err.count("\n") == 1


def test_a_negative_size_is_no_traceback(spyre_ktir, tmp_path):
    path = tmp_path / "negative.mlir"
    path.write_text("""
#some = affine_set<(d0)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0)>
func.func @f(%p: index, %n: index) {
  %v = ktdp.construct_memory_view %p, sizes: [%n], strides: [1] {coordinate_set = #some,
    memory_space = #ktdp.memory_space<global>} : memref<?xf32>
  return
}
""")
    code, _, err = spyre_ktir("run", path, "--random", "--set", "n=-1")
    assert code == 1
    assert err == "error: f: the size of p is negative: -1\n"


def test_a_scalar_without_a_value_is_named(spyre_ktir):
    code, _, err = spyre_ktir("run", SOFTMAX, "--random")
    assert code == 1
    assert "no value for columns" in err


def test_an_output_that_cannot_be_written(spyre_ktir, tmp_path):
    code, _, err = spyre_ktir("run", ADD, "--random", "--out", tmp_path / "no" / "out.npz")
    assert code == 1
    assert "cannot write" in err


def test_time_option_prints_the_modelled_time(spyre_ktir):
    code, out, err = spyre_ktir("time", SOFTMAX, "--set", "columns=256")
    assert (code, err) == (0, "")
    timing = ktir.load(SOFTMAX).estimate("softmax", columns=256)
    assert row(out, "time")[1] == f"{timing.time_us:.3f}"
    assert row(out, "bound")[2] == timing.bound_by
    assert str(timing.ddr_read_bytes) in row(out, "device")
    for step in timing.steps:
        assert step.op in out


def test_time_as_json_is_the_whole_timing(spyre_ktir):
    _, out, _ = spyre_ktir("time", ADD, "--json")
    timing = ktir.load(ADD).estimate("add")
    assert json.loads(out) == json.loads(json.dumps(timing.to_dict()))


def test_time_needs_the_scalars_it_depends_on(spyre_ktir):
    code, _, err = spyre_ktir("time", GATHER, "-f", "paged")
    assert code == 1
    assert "the time depends on batch, first" in err
