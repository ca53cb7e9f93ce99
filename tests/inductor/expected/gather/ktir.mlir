#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 39 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 8 >= 0, d2 >= 0, -d2 + 1 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 8 >= 0, d2 >= 0, -d2 + 127 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set4 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 8 >= 0, d2 >= 0, -d2 + 1 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
module {
  func.func @sdsc_fused_embedding_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [2]} {
    %0 = arith.constant 0 : index
    %1 = ktdp.construct_memory_view %arg1, sizes: [1, 2, 32], strides: [64, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<1x2x32xi32>
    %2 = ktdp.construct_memory_view %arg0, sizes: [2, 40, 64], strides: [2560, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<2x40x64xf16>
    %3 = ktdp.construct_memory_view %arg2, sizes: [2, 9, 2, 64], strides: [64, 256, 128, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<2x9x2x64xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = ktdp.construct_indirect_access_tile intermediate_variables(%c0, %c1, %c2) %2[(%c2 floordiv 64), ind(%1[0, %c0 + %4, %c1]), (%c2 mod 64)] {variables_space_set = #set3, variables_space_order = #map} : memref<2x40x64xf16>, memref<1x2x32xi32> -> !ktdp.access_tile<1x9x128xindex>
    %6 = ktdp.load %5 : <1x9x128xindex> -> tensor<1x9x128xf16>
    %7 = tensor.expand_shape %6 [[0], [1], [2, 3]] output_shape [1, 9, 2, 64] : tensor<1x9x128xf16> into tensor<1x9x2x64xf16>
    %8 = ktdp.construct_access_tile %3[%4, %0, %0, %0] {access_tile_set = #set4, access_tile_order = #map1} : memref<2x9x2x64xf16> -> !ktdp.access_tile<1x9x2x64xindex>
    ktdp.store %7, %8 : tensor<1x9x2x64xf16>, <1x9x2x64xindex>
    return
  }
}
