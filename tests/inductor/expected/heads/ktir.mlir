#set = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 1 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 127 >= 0)>
#set2 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 1 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 127 >= 0)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set4 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 127 >= 0, d2 >= 0, -d2 + 31 >= 0, d3 >= 0, -d3 + 127 >= 0)>
#set5 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 31 >= 0, d3 >= 0, -d3 + 15 >= 0)>
#set6 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 7 >= 0, d3 >= 0, -d3 + 15 >= 0)>
module {
  func.func @sdsc_fused_mul_permute_view_0_0(%arg0: index, %pool_arg0: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 8 : index
    %2 = ktdp.construct_memory_view %arg0, sizes: [4, 32, 2, 64], strides: [64, 512, 256, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x32x2x64xf16>
    %3 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 32, 128], strides: [1, 8192, 64] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<64x32x128xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = arith.muli %4, %1 : index
    %6 = ktdp.construct_access_tile %2[%0, %5, %0, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<4x32x2x64xf16> -> !ktdp.access_tile<4x8x2x64xindex>
    %7 = ktdp.load %6 : <4x8x2x64xindex> -> tensor<4x8x2x64xf16>
    %8 = tensor.collapse_shape %7 [[0], [1], [2, 3]] : tensor<4x8x2x64xf16> into tensor<4x8x128xf16>
    %9 = ktdp.construct_access_tile %3[%0, %5, %0] {access_tile_set = #set3, access_tile_order = #map1} : memref<64x32x128xf16> -> !ktdp.access_tile<4x8x128xindex>
    ktdp.store %8, %9 : tensor<4x8x128xf16>, <4x8x128xindex>
    return
  }
  func.func @sdsc_fused_mul_permute_view_0_1(%arg1: index, %pool_arg0: index) attributes {grid = [4]} {
    %0 = arith.constant 2.000000e+00 : f16
    %1 = arith.constant 0 : index
    %2 = arith.constant 8 : index
    %3 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 128, 32, 128], strides: [1, 1024, 8192, 64] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<64x128x32x128xf16>
    %4 = ktdp.construct_memory_view %arg1, sizes: [64, 8, 32, 16], strides: [1, 64, 8192, 512] {coordinate_set = #set5, memory_space = #ktdp.memory_space<global>} : memref<64x8x32x16xf16>
    %5 = ktdp.get_compute_tile_id : index
    %6 = arith.muli %5, %2 : index
    %7 = ktdp.construct_access_tile %3[%1, %1, %6, %1] {access_tile_set = #set6, access_tile_order = #map} : memref<64x128x32x128xf16> -> !ktdp.access_tile<4x8x8x16xindex>
    %8 = ktdp.load %7 : <4x8x8x16xindex> -> tensor<4x8x8x16xf16>
    %9 = tensor.splat %0 : tensor<4x8x8x16xf16>
    %10 = arith.mulf %8, %9 : tensor<4x8x8x16xf16>
    %11 = ktdp.construct_access_tile %4[%1, %1, %6, %1] {access_tile_set = #set6, access_tile_order = #map} : memref<64x8x32x16xf16> -> !ktdp.access_tile<4x8x8x16xindex>
    ktdp.store %10, %11 : tensor<4x8x8x16xf16>, <4x8x8x16xindex>
    return
  }
}
