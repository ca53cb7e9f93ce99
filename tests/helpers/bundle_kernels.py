"""Small kernels on 64x64 float16 arrays, and stages of bundles that run them."""

from torch_spyre import _C, ktir
from torch_spyre.backend.kernels import compile_kernel
from torch_spyre.cards import load_card
from torch_spyre.timing import estimate
from torch_spyre.timing.from_counts import record_of
from torch_spyre.timing.launch_cost import launch_cost

SIDE = 64
BYTES = SIDE * SIDE * 2

_TEXT = """
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @{op}(%a: index, %b: index, %c: index) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %me = ktdp.get_compute_tile_id : index
    %r = arith.muli %me, %two : index
    %av = ktdp.construct_memory_view %a, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %at = ktdp.construct_access_tile %av[%r, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<2x64xindex>
    %bt = ktdp.construct_access_tile %bv[%r, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<2x64xindex>
    %ct = ktdp.construct_access_tile %cv[%r, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<2x64xindex>
    %x = ktdp.load %at : <2x64xindex> -> tensor<2x64xf16>
    %y = ktdp.load %bt : <2x64xindex> -> tensor<2x64xf16>
    %s = arith.{op} %x, %y : tensor<2x64xf16>
    ktdp.store %s, %ct : tensor<2x64xf16>, <2x64xindex>
    return
  }
}
"""  # noqa: E501  (one operation a line, as KTIR is printed)


def pointwise(op):
    """Compile c = op(a, b)."""
    return compile_kernel(ktir.load(_TEXT.replace("{op}", op)), op, {})


def scratch(index, size=BYTES):
    """Return the binding of an array to a scratch buffer of the bundle."""
    return _C.ArrayBinding.scratch(index, size)


def argument(index, size=BYTES):
    """Return the binding of an array to an argument of the call."""
    return _C.ArrayBinding.argument(index, size)


def stage(program, arrays, **options):
    """Return a stage with its modelled time. Integers in `arrays` are indices of arguments."""
    arrays = [argument(array) if isinstance(array, int) else array for array in arrays]
    card = load_card()
    lanes = (card.timing.SFP_LANES_16, card.timing.SFP_LANES_32)
    counts = _C.record_program(program.file, [array.bytes for array in arrays], [], lanes)
    timing = estimate(record_of(program.content, counts), card)
    return _C.BundleStage(
        program_file=program.file,
        arrays=arrays,
        cost=launch_cost(timing, ops=(program.content.name,)),
        **options,
    )
