// y = table[ids]: each of 4 cores gathers 16 of 64 rows.
#table = affine_set<(r, c) : (r >= 0, -r + 999 >= 0, c >= 0, -c + 63 >= 0)>
#ids = affine_set<(i) : (i >= 0, -i + 63 >= 0)>
#out = affine_set<(r, c) : (r >= 0, -r + 63 >= 0, c >= 0, -c + 63 >= 0)>
#part = affine_set<(r, c) : (r >= 0, -r + 15 >= 0, c >= 0, -c + 63 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
module {
  func.func @gather(%table: index, %ids: index, %y: index) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %share = arith.constant 16 : index
    %core = ktdp.get_compute_tile_id : index
    %first = arith.muli %core, %share : index
    %ts = ktdp.construct_memory_view %table, sizes: [1000, 64], strides: [64, 1] {coordinate_set = #table, memory_space = #ktdp.memory_space<global>} : memref<1000x64xf16>
    %is = ktdp.construct_memory_view %ids, sizes: [64], strides: [1] {coordinate_set = #ids, memory_space = #ktdp.memory_space<global>} : memref<64xi32>
    %ys = ktdp.construct_memory_view %y, sizes: [64, 64], strides: [64, 1] {coordinate_set = #out, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %tile = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) %ts[ind(%is[%first + %r]), (%c)] {variables_space_set = #part, variables_space_order = #same} : memref<1000x64xf16>, memref<64xi32> -> !ktdp.access_tile<16x64xindex>
    %yt = ktdp.construct_access_tile %ys[%first, %zero] {access_tile_set = #part, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
    %rows = ktdp.load %tile : <16x64xindex> -> tensor<16x64xf16>
    ktdp.store %rows, %yt : tensor<16x64xf16>, <16x64xindex>
    return
  }
}
