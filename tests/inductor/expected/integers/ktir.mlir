#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 9 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 4 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @sdsc_fused_add_mul_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [4]} {
    %0 = arith.constant 3 : i32
    %1 = arith.constant 0 : index
    %2 = arith.constant 32 : index
    %3 = arith.constant 5 : index
    %4 = arith.constant 2 : index
    %5 = ktdp.construct_memory_view %arg0, sizes: [2, 10, 32], strides: [320, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x10x32xi32>
    %6 = ktdp.construct_memory_view %arg1, sizes: [2, 10, 32], strides: [320, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x10x32xi32>
    %7 = ktdp.construct_memory_view %arg2, sizes: [2, 10, 32], strides: [320, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x10x32xi32>
    %8 = ktdp.get_compute_tile_id : index
    %9 = arith.remui %8, %4 : index
    %10 = arith.divui %8, %4 : index
    %11 = arith.muli %9, %3 : index
    %12 = arith.muli %10, %2 : index
    %13 = arith.divui %12, %2 : index
    %14 = ktdp.construct_access_tile %5[%13, %11, %1] {access_tile_set = #set1, access_tile_order = #map} : memref<2x10x32xi32> -> !ktdp.access_tile<1x5x32xindex>
    %15 = ktdp.load %14 : <1x5x32xindex> -> tensor<1x5x32xi32>
    %16 = arith.divui %12, %2 : index
    %17 = ktdp.construct_access_tile %6[%16, %11, %1] {access_tile_set = #set1, access_tile_order = #map} : memref<2x10x32xi32> -> !ktdp.access_tile<1x5x32xindex>
    %18 = ktdp.load %17 : <1x5x32xindex> -> tensor<1x5x32xi32>
    %19 = arith.addi %15, %18 : tensor<1x5x32xi32>
    %20 = tensor.splat %0 : tensor<1x5x32xi32>
    %21 = arith.muli %19, %20 : tensor<1x5x32xi32>
    %22 = arith.divui %12, %2 : index
    %23 = ktdp.construct_access_tile %7[%22, %11, %1] {access_tile_set = #set1, access_tile_order = #map} : memref<2x10x32xi32> -> !ktdp.access_tile<1x5x32xindex>
    ktdp.store %21, %23 : tensor<1x5x32xi32>, <1x5x32xindex>
    return
  }
}
