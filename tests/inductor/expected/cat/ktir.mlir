#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 9 >= 0)>
#map = affine_map<(d0, d1) -> (d0, d1)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 29 >= 0)>
module {
  func.func @sdsc_fused_cat_0_0(%arg0: index, %arg2: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 2 : index
    %2 = ktdp.construct_memory_view %arg0, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %3 = ktdp.construct_memory_view %arg2, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = arith.muli %4, %1 : index
    %6 = ktdp.construct_access_tile %2[%5, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x10xindex>
    %7 = ktdp.load %6 : <2x10xindex> -> tensor<2x10xf16>
    %8 = ktdp.construct_access_tile %3[%5, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x10xindex>
    ktdp.store %7, %8 : tensor<2x10xf16>, <2x10xindex>
    return
  }
  func.func @sdsc_fused_cat_0_1(%arg1: index, %pool_buf2: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 2 : index
    %2 = ktdp.construct_memory_view %arg1, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %3 = ktdp.construct_memory_view %pool_buf2, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = arith.muli %4, %1 : index
    %6 = ktdp.construct_access_tile %2[%5, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x30xindex>
    %7 = ktdp.load %6 : <2x30xindex> -> tensor<2x30xf16>
    %8 = ktdp.construct_access_tile %3[%5, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x30xindex>
    ktdp.store %7, %8 : tensor<2x30xf16>, <2x30xindex>
    return
  }
  func.func @sdsc_fused_cat_0_2(%arg2: index, %pool_buf2: index) attributes {grid = [4]} {
    %0 = arith.constant 10 : index
    %1 = arith.constant 0 : index
    %2 = arith.constant 2 : index
    %3 = ktdp.construct_memory_view %pool_buf2, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %4 = arith.addi %arg2, %0 : index
    %5 = ktdp.construct_memory_view %4, sizes: [8, 64], strides: [64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %6 = ktdp.get_compute_tile_id : index
    %7 = arith.muli %6, %2 : index
    %8 = ktdp.construct_access_tile %3[%7, %1] {access_tile_set = #set2, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x30xindex>
    %9 = ktdp.load %8 : <2x30xindex> -> tensor<2x30xf16>
    %10 = ktdp.construct_access_tile %5[%7, %1] {access_tile_set = #set2, access_tile_order = #map} : memref<8x64xf16> -> !ktdp.access_tile<2x30xindex>
    ktdp.store %9, %10 : tensor<2x30xf16>, <2x30xindex>
    return
  }
}
