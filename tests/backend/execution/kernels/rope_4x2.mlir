// Rotary embedding of 64 positions and 128 channels on 4x2 cores: x by positions, y by quarters
// of the channels. A channel of the first half turns with its partner in the second.
#all = affine_set<(s, d) : (s >= 0, -s + 63 >= 0, d >= 0, -d + 127 >= 0)>
#angles = affine_set<(s, d) : (s >= 0, -s + 63 >= 0, d >= 0, -d + 63 >= 0)>
#tile = affine_set<(s, d) : (s >= 0, -s + 15 >= 0, d >= 0, -d + 31 >= 0)>
#id = affine_map<(s, d) -> (s, d)>
module {
  func.func @rope(%x: index, %cos: index, %sin: index, %y: index) attributes {grid = [4, 2]} {
    %ids:2 = ktdp.get_compute_tile_id : index, index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %s = arith.muli %ids#0, %c16 : index
    %d = arith.muli %ids#1, %c32 : index
    %xv = ktdp.construct_memory_view %x, sizes: [64, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [64, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %cv = ktdp.construct_memory_view %cos, sizes: [64, 64], strides: [64, 1] {coordinate_set = #angles, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %sv = ktdp.construct_memory_view %sin, sizes: [64, 64], strides: [64, 1] {coordinate_set = #angles, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %t1 = ktdp.construct_access_tile %xv[%s, %d] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
    %t2 = ktdp.construct_access_tile %xv[%s, %d + 64] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
    %o1 = ktdp.construct_access_tile %yv[%s, %d] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
    %o2 = ktdp.construct_access_tile %yv[%s, 64 + %d] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
    %ct = ktdp.construct_access_tile %cv[%s, %d] {access_tile_set = #tile, access_tile_order = #id} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
    %st = ktdp.construct_access_tile %sv[%s, %d] {access_tile_set = #tile, access_tile_order = #id} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
    %x1 = ktdp.load %t1 : <16x32xindex> -> tensor<16x32xf16>
    %x2 = ktdp.load %t2 : <16x32xindex> -> tensor<16x32xf16>
    %c = ktdp.load %ct : <16x32xindex> -> tensor<16x32xf16>
    %n = ktdp.load %st : <16x32xindex> -> tensor<16x32xf16>
    %a = arith.mulf %x1, %c : tensor<16x32xf16>
    %b = arith.mulf %x2, %n : tensor<16x32xf16>
    %e = arith.mulf %x2, %c : tensor<16x32xf16>
    %f = arith.mulf %x1, %n : tensor<16x32xf16>
    %y1 = arith.subf %a, %b : tensor<16x32xf16>
    %y2 = arith.addf %e, %f : tensor<16x32xf16>
    ktdp.store %y1, %o1 : tensor<16x32xf16>, <16x32xindex>
    ktdp.store %y2, %o2 : tensor<16x32xf16>, <16x32xindex>
    return
  }
}
