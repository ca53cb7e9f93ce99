#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 127 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set5 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @sdsc_fused_add_mm_relu_0_0(%arg0: index, %arg1: index, %arg2: index, %arg3: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0 : index
    %2 = arith.constant 0.000000e+00 : f32
    %3 = arith.constant 16 : index
    %4 = ktdp.construct_memory_view %arg0, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %5 = ktdp.construct_memory_view %arg1, sizes: [128, 3, 64], strides: [64, 8192, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<128x3x64xf16>
    %6 = ktdp.construct_memory_view %arg2, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %7 = ktdp.construct_memory_view %arg3, sizes: [64, 3, 64], strides: [64, 4096, 1] {coordinate_set = #set3, memory_space = #ktdp.memory_space<global>} : memref<64x3x64xf16>
    %8 = ktdp.get_compute_tile_id : index
    %9 = arith.muli %8, %3 : index
    %10 = tensor.splat %2 : tensor<16x192xf32>
    %11 = ktdp.construct_access_tile %4[%9, %1, %1] {access_tile_set = #set4, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %12 = ktdp.load %11 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %13 = tensor.collapse_shape %12 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %14 = ktdp.construct_access_tile %5[%1, %1, %1] {access_tile_set = #set1, access_tile_order = #map} : memref<128x3x64xf16> -> !ktdp.access_tile<128x3x64xindex>
    %15 = ktdp.load %14 : <128x3x64xindex> -> tensor<128x3x64xf16>
    %16 = tensor.collapse_shape %15 [[0], [1, 2]] : tensor<128x3x64xf16> into tensor<128x192xf16>
    %17 = tensor.empty() : tensor<192x128xf16>
    %18 = linalg.transpose ins(%16:tensor<128x192xf16>) outs(%17:tensor<192x128xf16>) permutation = [1, 0]
    %19 = tensor.empty() : tensor<128x192xf16>
    %20 = linalg.transpose ins(%18:tensor<192x128xf16>) outs(%19:tensor<128x192xf16>) permutation = [1, 0]
    %21 = linalg.matmul ins(%13, %20 : tensor<16x128xf16>, tensor<128x192xf16>) outs(%10 : tensor<16x192xf32>) -> tensor<16x192xf32>
    %22 = arith.truncf %21 : tensor<16x192xf32> to tensor<16x192xf16>
    %23 = ktdp.construct_access_tile %6[%1, %1] {access_tile_set = #set2, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %24 = ktdp.load %23 : <3x64xindex> -> tensor<3x64xf16>
    %25 = tensor.collapse_shape %24 [[0, 1]] : tensor<3x64xf16> into tensor<192xf16>
    %26 = tensor.empty() : tensor<16x192xf16>
    %27 = linalg.broadcast ins(%25:tensor<192xf16>) outs(%26:tensor<16x192xf16>) dimensions = [0]
    %28 = arith.addf %22, %27 : tensor<16x192xf16>
    %29 = tensor.splat %0 : tensor<16x192xf16>
    %30 = arith.maximumf %28, %29 : tensor<16x192xf16>
    %31 = tensor.expand_shape %30 [[0], [1, 2]] output_shape [16, 3, 64] : tensor<16x192xf16> into tensor<16x3x64xf16>
    %32 = ktdp.construct_access_tile %7[%9, %1, %1] {access_tile_set = #set5, access_tile_order = #map} : memref<64x3x64xf16> -> !ktdp.access_tile<16x3x64xindex>
    ktdp.store %31, %32 : tensor<16x3x64xf16>, <16x3x64xindex>
    return
  }
}
