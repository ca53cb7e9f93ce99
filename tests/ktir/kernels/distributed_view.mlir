// One array in three memories: device memory, and the scratchpads of two cores, one column-major.
#part0 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#part1 = affine_set<(d0, d1) : (d0 - 32 >= 0, -d0 + 47 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#part2 = affine_set<(d0, d1) : (d0 - 48 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#open = affine_set<(d0, d1)[s0] : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + s0 - 1 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @copy(%x: index, %y: index) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %me = ktdp.get_compute_tile_id : index
    %p0 = ktdp.construct_memory_view %x, sizes: [32, 64], strides: [64, 1] {coordinate_set = #part0, memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %p1 = ktdp.construct_memory_view %zero, sizes: [16, 64], strides: [64, 1] {coordinate_set = #part1, memory_space = #ktdp.memory_space<ct_local, ct_id = 0>} : memref<16x64xf16>
    %p2 = ktdp.construct_memory_view %zero, sizes: [16, 64], strides: [1, 16] {coordinate_set = #part2, memory_space = #ktdp.spyre_memory_space<LX, core = 1>} : memref<16x64xf16>
    %whole = ktdp.construct_distributed_memory_view (%p0, %p1, %p2 : memref<32x64xf16>, memref<16x64xf16>, memref<16x64xf16>) : memref<64x64xf16>
    %out = ktdp.construct_memory_view %y, sizes: [64, 64], strides: [64, 1] {memory_space = #ktdp.spyre_memory_space<HBM>} : memref<64x64xf16>
    %xt = ktdp.construct_access_tile %whole[16 * %me, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
    %yt = ktdp.construct_access_tile %out[%me * 16, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
    %v = ktdp.load %xt : <16x64xindex> -> tensor<16x64xf16>
    ktdp.store %v, %yt : tensor<16x64xf16>, <16x64xindex>
    return
  }

  func.func @open_width(%x: index, %y: index, %n: index) {
    %zero = arith.constant 0 : index
    %xv = ktdp.construct_memory_view %x, sizes: [64, %n], strides: [%n, 1] {coordinate_set = #open, memory_space = #ktdp.memory_space<global>} : memref<64x?xf16>
    %whole = ktdp.construct_distributed_memory_view (%xv : memref<64x?xf16>) : memref<64x?xf16>
    %xt = ktdp.construct_access_tile %whole[%zero, %zero] symbols(%n) {access_tile_set = #open, access_tile_order = #id2} : memref<64x?xf16> -> !ktdp.access_tile<64x?xindex>
    %v = ktdp.load %xt : <64x?xindex> -> tensor<64x?xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [64, %n], strides: [%n, 1] {coordinate_set = #open, memory_space = #ktdp.memory_space<global>} : memref<64x?xf16>
    %yt = ktdp.construct_access_tile %yv[%zero, %zero] symbols(%n) {access_tile_set = #open, access_tile_order = #id2} : memref<64x?xf16> -> !ktdp.access_tile<64x?xindex>
    ktdp.store %v, %yt : tensor<64x?xf16>, <64x?xindex>
    return
  }
}
