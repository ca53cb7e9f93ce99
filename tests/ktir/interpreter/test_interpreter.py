"""Interpreted KTIR agrees with the card."""

import numpy as np
import pytest
import torch
from varied_functions import FUNCTIONS

from torch_spyre import ktir
from torch_spyre.debugging.dumped_kernel import DumpedKernel
from torch_spyre.errors import KtirError
from torch_spyre.ktir.interpreter import interpret

pytestmark = pytest.mark.usefixtures("kernels")
# Kernels without sums, whose order the interpreter does not follow.
BITWISE = [
    "add", "broadcast", "transpose", "slice", "cat", "gather", "integers", "choice", "cast",
    "in_place", "write_slice", "write_indices", "views_with_offsets", "float8", "uint8", "int8",
    "bools", "indices", "sort", "powers", "remainders", "trigonometry",
]  # fmt: skip


@pytest.fixture
def dumped(monkeypatch, tmp_path):
    def run(name):
        function = FUNCTIONS[name]
        torch._dynamo.reset()
        monkeypatch.setenv("TORCH_SPYRE_DUMP", str(tmp_path))
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(function.call)(*function.on_card())
        monkeypatch.delenv("TORCH_SPYRE_DUMP")
        return [DumpedKernel.load(folder) for folder in sorted(tmp_path.iterdir())]

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_case_in(6)
def test_interpreted_kernels_are_within_the_bounds_of_their_ops(dumped, name):
    kernels = dumped(name)
    assert kernels
    for kernel in kernels:
        contents = kernel.interpret()
        assert kernel.divergence(contents) is None
        if name in BITWISE:
            written = [p for p, memory in enumerate(kernel.launch.memories) if memory.output]
            for position in written:
                mask = kernel.launch.memories[position].written
                if mask is None:
                    assert torch.equal(contents[position], kernel.outputs()[position])


KERNEL = """
#set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>
func.func @kernel(%x: index, %out: index) attributes {grid = [GRID]} {
  %zero = arith.constant 0 : index
  %in = ktdp.construct_memory_view %x, sizes: [64], strides: [1] : memref<64xf32>
  %result = ktdp.construct_memory_view %out, sizes: [64], strides: [1] : memref<64xf32>
  %source = ktdp.construct_access_tile %in[%zero] {access_tile_set = #set} -> <64xindex>
  %value = ktdp.load %source : <64xindex> -> tensor<64xf32>
  BODY
  %target = ktdp.construct_access_tile %result[%zero] {access_tile_set = #set} -> <64xindex>
  ktdp.store %y, %target : tensor<64xf32>, <64xindex>
  return
}
"""


def run_both(body):
    """Return the results of the interpreter and of the card for a kernel on 64 floats."""
    module = ktir.load(KERNEL.replace("BODY", body).replace("GRID", "1"))
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    arrays = [x.copy().view(np.uint8), np.zeros(256, np.uint8)]
    interpret(module.functions["kernel"], arrays)
    actual = module.run("kernel", x=x, out=np.zeros(64, np.float32))
    return arrays[1].view(np.float32), actual["out"]


@pytest.mark.parametrize(
    "body",
    [
        "%y = math.tanh %value : tensor<64xf32>",
        "%y = arith.remf %value, %value : tensor<64xf32>",
        """%one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %y = scf.for %i = %zero to %four step %one iter_args(%acc = %value) -> (tensor<64xf32>) {
    %next = arith.mulf %acc, %value : tensor<64xf32>
    scf.yield %next : tensor<64xf32>
  }""",
        """%low = arith.constant dense<0.5> : tensor<64xf32>
  %p = arith.cmpf olt, %value, %low : tensor<64xf32>
  %y = arith.select %p, %low, %value : tensor<64xi1>, tensor<64xf32>""",
        """%i = arith.fptosi %value : tensor<64xf32> to tensor<64xi32>
  %j = arith.muli %i, %i : tensor<64xi32>
  %y = arith.sitofp %j : tensor<64xi32> to tensor<64xf32>""",
    ],
    ids=["function", "remainder", "loop", "selection", "conversions"],
)
def test_written_kernels_give_the_cards_bits(body):
    interpreted, actual = run_both(body)
    assert np.array_equal(interpreted, actual, equal_nan=True)


def test_elements_beyond_an_array_are_zero_and_not_written():
    module = ktir.load(
        KERNEL.replace("BODY", "%y = math.cos %value : tensor<64xf32>").replace("GRID", "1")
    )
    arrays = [np.zeros(10 * 4, np.uint8), np.zeros(20 * 4, np.uint8)]
    interpret(module.functions["kernel"], arrays)
    assert np.array_equal(arrays[1].view(np.float32), np.ones(20, np.float32))


def test_other_number_of_arrays_is_an_error():
    module = ktir.load(
        KERNEL.replace("BODY", "%y = math.cos %value : tensor<64xf32>").replace("GRID", "1")
    )
    with pytest.raises(KtirError, match="takes 2 arguments, and 1 are given"):
        interpret(module.functions["kernel"], [np.zeros(256, np.uint8)])


def test_op_that_the_interpreter_lacks_is_an_error():
    with pytest.raises(KtirError, match="the interpreter has no"):
        run_both("%y = tensor.cast %value : tensor<64xf32> to tensor<64xf32>")
