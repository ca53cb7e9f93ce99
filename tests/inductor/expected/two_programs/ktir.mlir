#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set5 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @sdsc_fused_amax_div_exp_mm_permute_sub_sum_0_0(%arg0: index, %pool_buf2: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0xfc00 : f16
    %2 = arith.constant 0 : index
    %3 = arith.constant 16 : index
    %4 = ktdp.construct_memory_view %arg0, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %5 = ktdp.construct_memory_view %pool_buf2, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %6 = ktdp.get_compute_tile_id : index
    %7 = arith.muli %6, %3 : index
    %8 = ktdp.construct_access_tile %4[%7, %2, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %9 = ktdp.load %8 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %10 = tensor.collapse_shape %9 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %11 = tensor.splat %1 : tensor<16xf16>
    %12 = linalg.reduce ins(%10:tensor<16x128xf16>) outs(%11:tensor<16xf16>) dimensions = [1]
    (%13: f16, %14: f16) {
      %15 = arith.maximumf %13, %14 : f16
      linalg.yield %15 : f16
    }
    %16 = tensor.empty() : tensor<16x128xf16>
    %17 = linalg.broadcast ins(%12:tensor<16xf16>) outs(%16:tensor<16x128xf16>) dimensions = [1]
    %18 = arith.subf %10, %17 : tensor<16x128xf16>
    %19 = math.exp %18 : tensor<16x128xf16>
    %20 = tensor.splat %0 : tensor<16xf16>
    %21 = linalg.reduce ins(%19:tensor<16x128xf16>) outs(%20:tensor<16xf16>) dimensions = [1]
    (%22: f16, %23: f16) {
      %24 = arith.addf %22, %23 : f16
      linalg.yield %24 : f16
    }
    %25 = tensor.empty() : tensor<16x128xf16>
    %26 = linalg.broadcast ins(%21:tensor<16xf16>) outs(%25:tensor<16x128xf16>) dimensions = [1]
    %27 = arith.divf %19, %26 : tensor<16x128xf16>
    %28 = tensor.expand_shape %27 [[0], [1, 2]] output_shape [16, 2, 64] : tensor<16x128xf16> into tensor<16x2x64xf16>
    %29 = ktdp.construct_access_tile %5[%7, %2, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    ktdp.store %28, %29 : tensor<16x2x64xf16>, <16x2x64xindex>
    return
  }
  func.func @sdsc_fused_amax_div_exp_mm_permute_sub_sum_0_1(%arg0: index, %pool_arg0: index) attributes {grid = [2]} {
    %0 = arith.constant 0 : index
    %1 = arith.constant 64 : index
    %2 = ktdp.construct_memory_view %arg0, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %3 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 128], strides: [1, 64] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = arith.muli %4, %1 : index
    %6 = arith.divui %5, %1 : index
    %7 = ktdp.construct_access_tile %2[%0, %6, %0] {access_tile_set = #set3, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<64x1x64xindex>
    %8 = ktdp.load %7 : <64x1x64xindex> -> tensor<64x1x64xf16>
    %9 = tensor.collapse_shape %8 [[0], [1, 2]] : tensor<64x1x64xf16> into tensor<64x64xf16>
    %10 = ktdp.construct_access_tile %3[%0, %5] {access_tile_set = #set4, access_tile_order = #map1} : memref<64x128xf16> -> !ktdp.access_tile<64x64xindex>
    ktdp.store %9, %10 : tensor<64x64xf16>, <64x64xindex>
    return
  }
  func.func @sdsc_fused_amax_div_exp_mm_permute_sub_sum_0_2(%arg1: index, %pool_buf2: index, %pool_arg0: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0xfc00 : f16
    %2 = arith.constant 0 : index
    %3 = arith.constant 0.000000e+00 : f32
    %4 = arith.constant 16 : index
    %5 = ktdp.construct_memory_view %pool_buf2, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %6 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 128], strides: [1, 64] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %7 = ktdp.construct_memory_view %arg1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %8 = ktdp.get_compute_tile_id : index
    %9 = arith.muli %8, %4 : index
    %10 = tensor.splat %3 : tensor<16x64xf32>
    %11 = ktdp.construct_access_tile %5[%9, %2, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %12 = ktdp.load %11 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %13 = tensor.collapse_shape %12 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %14 = ktdp.construct_access_tile %6[%2, %2] {access_tile_set = #set2, access_tile_order = #map1} : memref<64x128xf16> -> !ktdp.access_tile<64x128xindex>
    %15 = ktdp.load %14 : <64x128xindex> -> tensor<64x128xf16>
    %16 = tensor.empty() : tensor<128x64xf16>
    %17 = linalg.transpose ins(%15:tensor<64x128xf16>) outs(%16:tensor<128x64xf16>) permutation = [1, 0]
    %18 = linalg.matmul ins(%13, %17 : tensor<16x128xf16>, tensor<128x64xf16>) outs(%10 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %19 = arith.truncf %18 : tensor<16x64xf32> to tensor<16x64xf16>
    %20 = tensor.splat %1 : tensor<16xf16>
    %21 = linalg.reduce ins(%19:tensor<16x64xf16>) outs(%20:tensor<16xf16>) dimensions = [1]
    (%22: f16, %23: f16) {
      %24 = arith.maximumf %22, %23 : f16
      linalg.yield %24 : f16
    }
    %25 = tensor.empty() : tensor<16x64xf16>
    %26 = linalg.broadcast ins(%21:tensor<16xf16>) outs(%25:tensor<16x64xf16>) dimensions = [1]
    %27 = arith.subf %19, %26 : tensor<16x64xf16>
    %28 = math.exp %27 : tensor<16x64xf16>
    %29 = tensor.splat %0 : tensor<16xf16>
    %30 = linalg.reduce ins(%28:tensor<16x64xf16>) outs(%29:tensor<16xf16>) dimensions = [1]
    (%31: f16, %32: f16) {
      %33 = arith.addf %31, %32 : f16
      linalg.yield %33 : f16
    }
    %34 = tensor.empty() : tensor<16x64xf16>
    %35 = linalg.broadcast ins(%30:tensor<16xf16>) outs(%34:tensor<16x64xf16>) dimensions = [1]
    %36 = arith.divf %28, %35 : tensor<16x64xf16>
    %37 = ktdp.construct_access_tile %7[%9, %2] {access_tile_set = #set5, access_tile_order = #map1} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
    ktdp.store %36, %37 : tensor<16x64xf16>, <16x64xindex>
    return
  }
}
