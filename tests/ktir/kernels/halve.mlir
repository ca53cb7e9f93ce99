// Halves the rows of an array on 4 cores.
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @halve(%src: index, %dst: index) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %half = arith.constant dense<0.5> : tensor<2x64xf16>
    %me = ktdp.get_compute_tile_id : index
    %r0 = arith.muli %me, %two : index
    %sv = ktdp.construct_memory_view %src, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %dv = ktdp.construct_memory_view %dst, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %st = ktdp.construct_access_tile %sv[%r0, %zero] {access_tile_order = #id2, access_tile_set = #row} : memref<8x64xf16> -> !ktdp.access_tile<2x64xindex>
    %dt = ktdp.construct_access_tile %dv[%r0, %zero] {access_tile_order = #id2, access_tile_set = #row} : memref<8x64xf16> -> !ktdp.access_tile<2x64xindex>
    %x = ktdp.load %st : <2x64xindex> -> tensor<2x64xf16>
    %y = arith.mulf %x, %half : tensor<2x64xf16>
    ktdp.store %y, %dt : tensor<2x64xf16>, <2x64xindex>
    return
  }
}
