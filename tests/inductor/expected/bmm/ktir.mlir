#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 47 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 47 >= 0)>
module {
  func.func @sdsc_fused_bmm_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [4]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 0.000000e+00 : f32
    %2 = arith.constant 8 : index
    %3 = ktdp.construct_memory_view %arg0, sizes: [3, 32, 64], strides: [64, 192, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x32x64xf16>
    %4 = ktdp.construct_memory_view %arg1, sizes: [3, 64, 64], strides: [64, 1, 192] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64x64xf16>
    %5 = ktdp.construct_memory_view %arg2, sizes: [3, 32, 64], strides: [64, 192, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x32x64xf16>
    %6 = ktdp.get_compute_tile_id : index
    %7 = arith.muli %6, %2 : index
    %8 = tensor.splat %1 : tensor<3x8x48xf32>
    %9 = ktdp.construct_access_tile %3[%0, %7, %0] {access_tile_set = #set2, access_tile_order = #map} : memref<3x32x64xf16> -> !ktdp.access_tile<3x8x64xindex>
    %10 = ktdp.load %9 : <3x8x64xindex> -> tensor<3x8x64xf16>
    %11 = ktdp.construct_access_tile %4[%0, %0, %0] {access_tile_set = #set3, access_tile_order = #map} : memref<3x64x64xf16> -> !ktdp.access_tile<3x48x64xindex>
    %12 = ktdp.load %11 : <3x48x64xindex> -> tensor<3x48x64xf16>
    %13 = tensor.empty() : tensor<3x64x48xf16>
    %14 = linalg.transpose ins(%12:tensor<3x48x64xf16>) outs(%13:tensor<3x64x48xf16>) permutation = [0, 2, 1]
    %15 = linalg.batch_matmul ins(%10, %14 : tensor<3x8x64xf16>, tensor<3x64x48xf16>) outs(%8 : tensor<3x8x48xf32>) -> tensor<3x8x48xf32>
    %16 = arith.truncf %15 : tensor<3x8x48xf32> to tensor<3x8x48xf16>
    %17 = ktdp.construct_access_tile %5[%0, %7, %0] {access_tile_set = #set4, access_tile_order = #map} : memref<3x32x64xf16> -> !ktdp.access_tile<3x8x48xindex>
    ktdp.store %16, %17 : tensor<3x8x48xf16>, <3x8x48xindex>
    return
  }
}
