#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 4 >= 0, d1 >= 0, -d1 + 5 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 4 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @sdsc_fused_gt_mul_where_0_0(%arg0: index, %arg1: index) attributes {grid = [3]} {
    %0 = arith.constant 5.000000e-01 : f32
    %1 = arith.constant 0.000000e+00 : f32
    %2 = arith.constant 0 : index
    %3 = arith.constant 2 : index
    %4 = ktdp.construct_memory_view %arg0, sizes: [5, 6, 32], strides: [192, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<5x6x32xf32>
    %5 = ktdp.construct_memory_view %arg1, sizes: [5, 6, 32], strides: [192, 32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<5x6x32xf32>
    %6 = ktdp.get_compute_tile_id : index
    %7 = arith.muli %6, %3 : index
    %8 = ktdp.construct_access_tile %4[%2, %7, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<5x6x32xf32> -> !ktdp.access_tile<5x2x32xindex>
    %9 = ktdp.load %8 : <5x2x32xindex> -> tensor<5x2x32xf32>
    %10 = tensor.splat %1 : tensor<5x2x32xf32>
    %11 = arith.cmpf ogt, %9, %10 : tensor<5x2x32xf32>
    %12 = tensor.splat %0 : tensor<5x2x32xf32>
    %13 = arith.mulf %9, %12 : tensor<5x2x32xf32>
    %14 = arith.select %11, %9, %13 : tensor<5x2x32xi1>, tensor<5x2x32xf32>
    %15 = ktdp.construct_access_tile %5[%2, %7, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<5x6x32xf32> -> !ktdp.access_tile<5x2x32xindex>
    ktdp.store %14, %15 : tensor<5x2x32xf32>, <5x2x32xindex>
    return
  }
}
