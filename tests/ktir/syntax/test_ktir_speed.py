"""Parsing, verification and printing take time linear in the number of ops."""

import time

from torch_spyre import ktir

HEAD = """#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @f(%p: index) {
    %z = arith.constant 0 : index
    %v = ktdp.construct_memory_view %p, sizes: [64, 64], strides: [64, 1] {} : memref<64x64xf16>
"""
STEP = """    %a{0} = arith.addi %z, %z : index
    %t{0} = ktdp.construct_access_tile %v[%a{0}, %z] {{access_tile_set = #row}}
        : memref<64x64xf16> -> <1x64xindex>
    %x{0} = ktdp.load %t{0} : <1x64xindex> -> tensor<1x64xf16>
    %y{0} = arith.mulf %x{0}, %x{0} : tensor<1x64xf16>
    ktdp.store %y{0}, %t{0} : tensor<1x64xf16>, <1x64xindex>
"""


def text_of(operations):
    steps = "".join(STEP.format(position) for position in range(operations // 5))
    return f"{HEAD}{steps}    return\n  }}\n}}\n"


def cpu_seconds(work):
    """Return the minimum CPU time of three runs; unlike wall time it does not depend on load."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def test_time_is_linear_in_the_number_of_ops():
    small, large = text_of(100), text_of(800)
    loads = [cpu_seconds(lambda text=text: ktir.load(text)) for text in (small, large)]
    assert loads[1] / loads[0] < 16
    modules = [ktir.load(text) for text in (small, large)]
    prints = [cpu_seconds(lambda module=module: str(module)) for module in modules]
    assert prints[1] / prints[0] < 24
