#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 95 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 23 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @sdsc_fused_add_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 24 : index
    %2 = ktdp.construct_memory_view %arg0, sizes: [4, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x96x64xf16>
    %3 = ktdp.construct_memory_view %arg1, sizes: [4, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x96x64xf16>
    %4 = ktdp.construct_memory_view %arg2, sizes: [4, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x96x64xf16>
    %5 = ktdp.get_compute_tile_id : index
    %6 = arith.muli %5, %1 : index
    %7 = ktdp.construct_access_tile %2[%0, %6, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<4x96x64xf16> -> !ktdp.access_tile<4x24x64xindex>
    %8 = ktdp.load %7 : <4x24x64xindex> -> tensor<4x24x64xf16>
    %9 = ktdp.construct_access_tile %3[%0, %6, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<4x96x64xf16> -> !ktdp.access_tile<4x24x64xindex>
    %10 = ktdp.load %9 : <4x24x64xindex> -> tensor<4x24x64xf16>
    %11 = arith.addf %8, %10 : tensor<4x24x64xf16>
    %12 = ktdp.construct_access_tile %4[%0, %6, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<4x96x64xf16> -> !ktdp.access_tile<4x24x64xindex>
    ktdp.store %11, %12 : tensor<4x24x64xf16>, <4x24x64xindex>
    return
  }
}
