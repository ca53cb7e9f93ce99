#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set5 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @sdsc_fused_amax_div_exp_full_isinf_mm_permute_sub_sum_where_0_0(%arg0: index, %pool_buf2: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0x7fc00000 : f32
    %2 = arith.truncf %1 : f32 to f16
    %3 = arith.constant 0x7c00 : f16
    %4 = arith.constant 0xfc00 : f16
    %5 = arith.constant 0 : index
    %6 = arith.constant 16 : index
    %7 = ktdp.construct_memory_view %arg0, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %8 = ktdp.construct_memory_view %pool_buf2, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %9 = ktdp.get_compute_tile_id : index
    %10 = arith.muli %9, %6 : index
    %11 = ktdp.construct_access_tile %7[%10, %5, %5] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %12 = ktdp.load %11 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %13 = tensor.collapse_shape %12 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %14 = tensor.splat %4 : tensor<16xf16>
    %15 = linalg.reduce ins(%13:tensor<16x128xf16>) outs(%14:tensor<16xf16>) dimensions = [1]
    (%16: f16, %17: f16) {
      %18 = arith.maximumf %16, %17 : f16
      linalg.yield %18 : f16
    }
    %19 = math.absf %15 : tensor<16xf16>
    %20 = tensor.splat %3 : tensor<16xf16>
    %21 = arith.cmpf oeq, %19, %20 : tensor<16xf16>
    %22 = tensor.splat %2 : tensor<16xf16>
    %23 = arith.select %21, %22, %15 : tensor<16xi1>, tensor<16xf16>
    %24 = tensor.empty() : tensor<16x128xf16>
    %25 = linalg.broadcast ins(%23:tensor<16xf16>) outs(%24:tensor<16x128xf16>) dimensions = [1]
    %26 = arith.subf %13, %25 : tensor<16x128xf16>
    %27 = math.exp %26 : tensor<16x128xf16>
    %28 = tensor.splat %0 : tensor<16xf16>
    %29 = linalg.reduce ins(%27:tensor<16x128xf16>) outs(%28:tensor<16xf16>) dimensions = [1]
    (%30: f16, %31: f16) {
      %32 = arith.addf %30, %31 : f16
      linalg.yield %32 : f16
    }
    %33 = tensor.empty() : tensor<16x128xf16>
    %34 = linalg.broadcast ins(%29:tensor<16xf16>) outs(%33:tensor<16x128xf16>) dimensions = [1]
    %35 = arith.divf %27, %34 : tensor<16x128xf16>
    %36 = tensor.expand_shape %35 [[0], [1, 2]] output_shape [16, 2, 64] : tensor<16x128xf16> into tensor<16x2x64xf16>
    %37 = ktdp.construct_access_tile %8[%10, %5, %5] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    ktdp.store %36, %37 : tensor<16x2x64xf16>, <16x2x64xindex>
    return
  }
  func.func @sdsc_fused_amax_div_exp_full_isinf_mm_permute_sub_sum_where_0_1(%arg0: index, %pool_arg0: index) attributes {grid = [2]} {
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
  func.func @sdsc_fused_amax_div_exp_full_isinf_mm_permute_sub_sum_where_0_2(%arg1: index, %pool_buf2: index, %pool_arg0: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0x7fc00000 : f32
    %2 = arith.truncf %1 : f32 to f16
    %3 = arith.constant 0x7c00 : f16
    %4 = arith.constant 0xfc00 : f16
    %5 = arith.constant 0 : index
    %6 = arith.constant 0.000000e+00 : f32
    %7 = arith.constant 16 : index
    %8 = ktdp.construct_memory_view %pool_buf2, sizes: [64, 2, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x2x64xf16>
    %9 = ktdp.construct_memory_view %pool_arg0, sizes: [64, 128], strides: [1, 64] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %10 = ktdp.construct_memory_view %arg1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %11 = ktdp.get_compute_tile_id : index
    %12 = arith.muli %11, %7 : index
    %13 = tensor.splat %6 : tensor<16x64xf32>
    %14 = ktdp.construct_access_tile %8[%12, %5, %5] {access_tile_set = #set1, access_tile_order = #map} : memref<64x2x64xf16> -> !ktdp.access_tile<16x2x64xindex>
    %15 = ktdp.load %14 : <16x2x64xindex> -> tensor<16x2x64xf16>
    %16 = tensor.collapse_shape %15 [[0], [1, 2]] : tensor<16x2x64xf16> into tensor<16x128xf16>
    %17 = ktdp.construct_access_tile %9[%5, %5] {access_tile_set = #set2, access_tile_order = #map1} : memref<64x128xf16> -> !ktdp.access_tile<64x128xindex>
    %18 = ktdp.load %17 : <64x128xindex> -> tensor<64x128xf16>
    %19 = tensor.empty() : tensor<128x64xf16>
    %20 = linalg.transpose ins(%18:tensor<64x128xf16>) outs(%19:tensor<128x64xf16>) permutation = [1, 0]
    %21 = linalg.matmul ins(%16, %20 : tensor<16x128xf16>, tensor<128x64xf16>) outs(%13 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %22 = arith.truncf %21 : tensor<16x64xf32> to tensor<16x64xf16>
    %23 = tensor.splat %4 : tensor<16xf16>
    %24 = linalg.reduce ins(%22:tensor<16x64xf16>) outs(%23:tensor<16xf16>) dimensions = [1]
    (%25: f16, %26: f16) {
      %27 = arith.maximumf %25, %26 : f16
      linalg.yield %27 : f16
    }
    %28 = math.absf %24 : tensor<16xf16>
    %29 = tensor.splat %3 : tensor<16xf16>
    %30 = arith.cmpf oeq, %28, %29 : tensor<16xf16>
    %31 = tensor.splat %2 : tensor<16xf16>
    %32 = arith.select %30, %31, %24 : tensor<16xi1>, tensor<16xf16>
    %33 = tensor.empty() : tensor<16x64xf16>
    %34 = linalg.broadcast ins(%32:tensor<16xf16>) outs(%33:tensor<16x64xf16>) dimensions = [1]
    %35 = arith.subf %22, %34 : tensor<16x64xf16>
    %36 = math.exp %35 : tensor<16x64xf16>
    %37 = tensor.splat %0 : tensor<16xf16>
    %38 = linalg.reduce ins(%36:tensor<16x64xf16>) outs(%37:tensor<16xf16>) dimensions = [1]
    (%39: f16, %40: f16) {
      %41 = arith.addf %39, %40 : f16
      linalg.yield %41 : f16
    }
    %42 = tensor.empty() : tensor<16x64xf16>
    %43 = linalg.broadcast ins(%38:tensor<16xf16>) outs(%42:tensor<16x64xf16>) dimensions = [1]
    %44 = arith.divf %36, %43 : tensor<16x64xf16>
    %45 = ktdp.construct_access_tile %10[%12, %5] {access_tile_set = #set5, access_tile_order = #map1} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
    ktdp.store %44, %45 : tensor<16x64xf16>, <16x64xindex>
    return
  }
}
