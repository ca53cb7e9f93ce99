// y[ids] = x: one core scatters 64 rows by the ids, and does not modify the other rows.
#in = affine_set<(r, c) : (r >= 0, -r + 63 >= 0, c >= 0, -c + 63 >= 0)>
#ids = affine_set<(i) : (i >= 0, -i + 63 >= 0)>
#out = affine_set<(r, c) : (r >= 0, -r + 99 >= 0, c >= 0, -c + 63 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
module {
  func.func @scatter(%x: index, %ids: index, %y: index) attributes {grid = [1]} {
    %zero = arith.constant 0 : index
    %xs = ktdp.construct_memory_view %x, sizes: [64, 64], strides: [64, 1] {coordinate_set = #in, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %is = ktdp.construct_memory_view %ids, sizes: [64], strides: [1] {coordinate_set = #ids, memory_space = #ktdp.memory_space<global>} : memref<64xi32>
    %ys = ktdp.construct_memory_view %y, sizes: [100, 64], strides: [64, 1] {coordinate_set = #out, memory_space = #ktdp.memory_space<global>} : memref<100x64xf16>
    %xt = ktdp.construct_access_tile %xs[%zero, %zero] {access_tile_set = #in, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<64x64xindex>
    %tile = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) %ys[ind(%is[%r]), (%c)] {variables_space_set = #in, variables_space_order = #same} : memref<100x64xf16>, memref<64xi32> -> !ktdp.access_tile<64x64xindex>
    %rows = ktdp.load %xt : <64x64xindex> -> tensor<64x64xf16>
    ktdp.store %rows, %tile : tensor<64x64xf16>, <64x64xindex>
    return
  }
}
