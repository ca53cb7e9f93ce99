#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @sdsc_fused_mul_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 16 : index
    %2 = ktdp.construct_memory_view %arg0, sizes: [3, 64, 64], strides: [4096, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x64x64xf16>
    %3 = ktdp.construct_memory_view %arg1, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %4 = ktdp.construct_memory_view %arg2, sizes: [3, 64, 64], strides: [4096, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x64x64xf16>
    %5 = ktdp.get_compute_tile_id : index
    %6 = arith.muli %5, %1 : index
    %7 = ktdp.construct_access_tile %2[%0, %6, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<3x64x64xf16> -> !ktdp.access_tile<3x16x64xindex>
    %8 = ktdp.load %7 : <3x16x64xindex> -> tensor<3x16x64xf16>
    %9 = ktdp.construct_access_tile %3[%0, %0] {access_tile_set = #set1, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %10 = ktdp.load %9 : <3x64xindex> -> tensor<3x64xf16>
    %11 = tensor.empty() : tensor<3x16x64xf16>
    %12 = linalg.broadcast ins(%10:tensor<3x64xf16>) outs(%11:tensor<3x16x64xf16>) dimensions = [1]
    %13 = arith.mulf %8, %12 : tensor<3x16x64xf16>
    %14 = ktdp.construct_access_tile %4[%0, %6, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<3x64x64xf16> -> !ktdp.access_tile<3x16x64xindex>
    ktdp.store %13, %14 : tensor<3x16x64xf16>, <3x16x64xindex>
    return
  }
}
