#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 99 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 99 >= 0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set3 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 64 >= 0)>
#set4 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 64 >= 0)>
module {
  func.func @sdsc_fused_mul_slice_0_0(%arg0: index, %pool_arg0: index) attributes {grid = [1]} {
    %0 = arith.constant 0 : index
    %1 = ktdp.construct_memory_view %arg0, sizes: [16, 2, 64], strides: [64, 1024, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<16x2x64xf16>
    %2 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 100], strides: [1, 64] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<64x100xf16>
    %3 = ktdp.get_compute_tile_id : index
    %4 = ktdp.construct_access_tile %1[%0, %0, %0] {access_tile_set = #set, access_tile_order = #map} : memref<16x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %5 = ktdp.load %4 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %6 = tensor.collapse_shape %5 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %7 = tensor.extract_slice %6[0, 0] [16, 100] [1, 1] : tensor<16x128xf16> to tensor<16x100xf16>
    %8 = ktdp.construct_access_tile %2[%0, %0] {access_tile_set = #set2, access_tile_order = #map1} : memref<64x100xf16> -> !ktdp.access_tile<16x100xindex>
    ktdp.store %7, %8 : tensor<16x100xf16>, <16x100xindex>
    return
  }
  func.func @sdsc_fused_mul_slice_0_1(%arg1: index, %pool_arg0: index) attributes {grid = [1]} {
    %0 = arith.constant 2.000000e+00 : f16
    %1 = arith.constant 0 : index
    %2 = arith.constant 320 : index
    %3 = arith.addi %pool_arg0, %2 : index
    %4 = ktdp.construct_memory_view %3, sizes: [64, 100], strides: [1, 64] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<64x100xf16>
    %5 = ktdp.construct_memory_view %arg1, sizes: [64, 65], strides: [1, 64] {coordinate_set = #set3, memory_space = #ktdp.memory_space<global>} : memref<64x65xf16>
    %6 = ktdp.get_compute_tile_id : index
    %7 = ktdp.construct_access_tile %4[%1, %1] {access_tile_set = #set4, access_tile_order = #map1} : memref<64x100xf16> -> !ktdp.access_tile<16x65xindex>
    %8 = ktdp.load %7 : <16x65xindex> -> tensor<16x65xf16>
    %9 = tensor.splat %0 : tensor<16x65xf16>
    %10 = arith.mulf %8, %9 : tensor<16x65xf16>
    %11 = ktdp.construct_access_tile %5[%1, %1] {access_tile_set = #set4, access_tile_order = #map1} : memref<64x65xf16> -> !ktdp.access_tile<16x65xindex>
    ktdp.store %10, %11 : tensor<16x65xf16>, <16x65xindex>
    return
  }
}
