// Rows go to the places that an index view names, transposed on the way by the order map.
#box4x64 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
module {
  func.func @scatter(%x: index, %i: index, %t: index) {
    %zero = arith.constant 0 : index
    %source = ktdp.construct_memory_view %x, sizes: [64, 4], strides: [4, 1] {memory_space = #ktdp.memory_space<global>} : memref<64x4xf16>
    %ids = ktdp.construct_memory_view %i, sizes: [4], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<4xi64>
    %table = ktdp.construct_memory_view %t, sizes: [32, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %xt = ktdp.construct_access_tile %source[%zero, %zero] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 3 >= 0)>} : memref<64x4xf16> -> !ktdp.access_tile<64x4xindex>
    %v = ktdp.load %xt : <64x4xindex> -> tensor<64x4xf16>
    %st = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) %table[ind(%ids[%r]), (%c)] {variables_space_order = #swap, variables_space_set = #box4x64} : memref<32x64xf16>, memref<4xi64> -> !ktdp.access_tile<64x4xindex>
    ktdp.store %v, %st : tensor<64x4xf16>, <64x4xindex>
    return
  }
}
