"""Measure launches: the time to queue one, and the time to run a small kernel.

Every row is the minimum of several rounds in one run, alternating with a multiplication of the same
size on the CPU; ratios are to that multiplication.
"""

import argparse
import time

import torch

from torch_spyre import _C, ktir
from torch_spyre.backend.kernels import compile_kernel

KERNEL = """
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#same = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @mul(%a: index, %b: index, %c: index) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %me = ktdp.get_compute_tile_id : index
    %r = arith.muli %me, %two : index
VIEWS
    %x = ktdp.load %at : <2x64xindex> -> tensor<2x64xf16>
    %y = ktdp.load %bt : <2x64xindex> -> tensor<2x64xf16>
    %s = arith.mulf %x, %y : tensor<2x64xf16>
    ktdp.store %s, %ct : tensor<2x64xf16>, <2x64xindex>
    return
  }
}
"""
VIEW = """
    %{0}v = ktdp.construct_memory_view %{0}, sizes: [64, 64], strides: [64, 1]
        {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<64x64xf16>
    %{0}t = ktdp.construct_access_tile %{0}v[%r, %zero]
        {{access_tile_set = #tile, access_tile_order = #same}}
        : memref<64x64xf16> -> !ktdp.access_tile<2x64xindex>
"""


def bundle(stages):
    """Return a bundle of elementwise multiplications of 64x64 float16 tensors, run in sequence."""
    text = KERNEL.replace("VIEWS", "".join(VIEW.format(name) for name in "abc"))
    program = compile_kernel(ktir.load(text), "mul", {})
    arrays = [_C.ArrayBinding.argument(index, 64 * 64 * 2) for index in range(3)]
    stage = _C.BundleStage(program_file=program.file, arrays=arrays)
    return _C.Bundle("mul", [stage] * stages)


def rows(launches):
    """Return the measured functions by name, with the number of repetitions inside each."""
    host = torch.ones(64, 64, dtype=torch.float16)
    card = host.to("spyre")
    out = torch.empty_like(card)
    single, tenfold = bundle(1), bundle(10)
    arguments = (card, out)

    def repeat(call):
        def calls():
            for _ in range(launches):
                call()

        return calls

    return {
        "multiplication on the CPU": (repeat(lambda: host * host), launches),
        "queue a launch": (repeat(lambda: single.run(card, card, out)), launches),
        "queue and run": (repeat(lambda: single.run(card, card, out)), launches),
        "run, in bundles of ten": (repeat(lambda: tenfold.run(card, card, out)), 10 * launches),
        "key of two tensors": (repeat(lambda: _C.arguments_key(arguments, None)), launches),
        "empty tensor": (repeat(lambda: torch.empty_like(card)), launches),
    }


def measure(calls, repeats):
    """Return the minimum time of each call in seconds."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, (call, count) in calls.items():
            start = time.perf_counter()
            call()
            queued = time.perf_counter()
            torch.spyre.synchronize()
            end = queued if name == "queue a launch" else time.perf_counter()
            best[name] = min(best[name], (end - start) / count)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=200, help="in a row")
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()

    best = measure(rows(arguments.launches), arguments.repeats)
    print(f"{'64x64 float16':<26}{'us':>8}{'ratio':>8}")
    for name, seconds in best.items():
        print(f"{name:<26}{seconds * 1e6:>8.2f}{seconds / best['multiplication on the CPU']:>8.1f}")


if __name__ == "__main__":
    main()
