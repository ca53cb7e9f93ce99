#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 31 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 31 >= 0)>
module {
  func.func @sdsc_fused_convert_element_type_mul_0_0(%arg0: index, %arg1: index) attributes {grid = [4]} {
    %0 = arith.constant 3.000000e+00 : f32
    %1 = arith.constant 0 : index
    %2 = arith.constant 8 : index
    %3 = ktdp.construct_memory_view %arg0, sizes: [32, 2, 64], strides: [64, 2048, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32x2x64xf16>
    %4 = ktdp.construct_memory_view %arg1, sizes: [32, 4, 32], strides: [32, 1024, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<32x4x32xf32>
    %5 = ktdp.get_compute_tile_id : index
    %6 = arith.muli %5, %2 : index
    %7 = ktdp.construct_access_tile %3[%6, %1, %1] {access_tile_set = #set2, access_tile_order = #map} : memref<32x2x64xf16> -> !ktdp.access_tile<8x2x64xindex>
    %8 = ktdp.load %7 : <8x2x64xindex> -> tensor<8x2x64xf16>
    %9 = tensor.collapse_shape %8 [[0], [1, 2]] : tensor<8x2x64xf16> into tensor<8x128xf16>
    %10 = arith.extf %9 : tensor<8x128xf16> to tensor<8x128xf32>
    %11 = tensor.splat %0 : tensor<8x128xf32>
    %12 = arith.mulf %10, %11 : tensor<8x128xf32>
    %13 = tensor.expand_shape %12 [[0], [1, 2]] output_shape [8, 4, 32] : tensor<8x128xf32> into tensor<8x4x32xf32>
    %14 = ktdp.construct_access_tile %4[%6, %1, %1] {access_tile_set = #set3, access_tile_order = #map} : memref<32x4x32xf32> -> !ktdp.access_tile<8x4x32xindex>
    ktdp.store %13, %14 : tensor<8x4x32xf32>, <8x4x32xindex>
    return
  }
}
