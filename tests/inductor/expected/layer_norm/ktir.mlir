#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @sdsc_fused_add_mean_mul_rsqrt_sub_0_0(%arg0: index, %arg1: index, %arg2: index, %arg3: index) attributes {grid = [4]} {
    %0 = arith.constant 1.001360e-05 : f16
    %1 = arith.constant 0.00520833349 : f32
    %2 = arith.constant 0.000000e+00 : f32
    %3 = arith.constant 0 : index
    %4 = arith.constant 8 : index
    %5 = ktdp.construct_memory_view %arg0, sizes: [32, 3, 64], strides: [64, 2048, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32x3x64xf16>
    %6 = ktdp.construct_memory_view %arg1, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %7 = ktdp.construct_memory_view %arg2, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %8 = ktdp.construct_memory_view %arg3, sizes: [32, 3, 64], strides: [64, 2048, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32x3x64xf16>
    %9 = ktdp.get_compute_tile_id : index
    %10 = arith.muli %9, %4 : index
    %11 = ktdp.construct_access_tile %5[%10, %3, %3] {access_tile_set = #set2, access_tile_order = #map} : memref<32x3x64xf16> -> !ktdp.access_tile<8x3x64xindex>
    %12 = ktdp.load %11 : <8x3x64xindex> -> tensor<8x3x64xf16>
    %13 = tensor.collapse_shape %12 [[0], [1, 2]] : tensor<8x3x64xf16> into tensor<8x192xf16>
    %14 = tensor.splat %2 : tensor<8xf32>
    %15 = arith.extf %13 : tensor<8x192xf16> to tensor<8x192xf32>
    %16 = linalg.reduce ins(%15:tensor<8x192xf32>) outs(%14:tensor<8xf32>) dimensions = [1]
    (%17: f32, %18: f32) {
      %19 = arith.addf %17, %18 : f32
      linalg.yield %19 : f32
    }
    %20 = tensor.splat %1 : tensor<8xf32>
    %21 = arith.mulf %16, %20 : tensor<8xf32>
    %22 = arith.truncf %21 : tensor<8xf32> to tensor<8xf16>
    %23 = tensor.empty() : tensor<8x192xf16>
    %24 = linalg.broadcast ins(%22:tensor<8xf16>) outs(%23:tensor<8x192xf16>) dimensions = [1]
    %25 = arith.subf %13, %24 : tensor<8x192xf16>
    %26 = arith.mulf %25, %25 : tensor<8x192xf16>
    %27 = tensor.splat %2 : tensor<8xf32>
    %28 = arith.extf %26 : tensor<8x192xf16> to tensor<8x192xf32>
    %29 = linalg.reduce ins(%28:tensor<8x192xf32>) outs(%27:tensor<8xf32>) dimensions = [1]
    (%30: f32, %31: f32) {
      %32 = arith.addf %30, %31 : f32
      linalg.yield %32 : f32
    }
    %33 = tensor.splat %1 : tensor<8xf32>
    %34 = arith.mulf %29, %33 : tensor<8xf32>
    %35 = arith.truncf %34 : tensor<8xf32> to tensor<8xf16>
    %36 = tensor.splat %0 : tensor<8xf16>
    %37 = arith.addf %35, %36 : tensor<8xf16>
    %38 = math.rsqrt %37 : tensor<8xf16>
    %39 = tensor.empty() : tensor<8x192xf16>
    %40 = linalg.broadcast ins(%38:tensor<8xf16>) outs(%39:tensor<8x192xf16>) dimensions = [1]
    %41 = arith.mulf %25, %40 : tensor<8x192xf16>
    %42 = ktdp.construct_access_tile %6[%3, %3] {access_tile_set = #set1, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %43 = ktdp.load %42 : <3x64xindex> -> tensor<3x64xf16>
    %44 = tensor.collapse_shape %43 [[0, 1]] : tensor<3x64xf16> into tensor<192xf16>
    %45 = tensor.empty() : tensor<8x192xf16>
    %46 = linalg.broadcast ins(%44:tensor<192xf16>) outs(%45:tensor<8x192xf16>) dimensions = [0]
    %47 = arith.mulf %41, %46 : tensor<8x192xf16>
    %48 = ktdp.construct_access_tile %7[%3, %3] {access_tile_set = #set1, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %49 = ktdp.load %48 : <3x64xindex> -> tensor<3x64xf16>
    %50 = tensor.collapse_shape %49 [[0, 1]] : tensor<3x64xf16> into tensor<192xf16>
    %51 = tensor.empty() : tensor<8x192xf16>
    %52 = linalg.broadcast ins(%50:tensor<192xf16>) outs(%51:tensor<8x192xf16>) dimensions = [0]
    %53 = arith.addf %47, %52 : tensor<8x192xf16>
    %54 = tensor.expand_shape %53 [[0], [1, 2]] output_shape [8, 3, 64] : tensor<8x192xf16> into tensor<8x3x64xf16>
    %55 = ktdp.construct_access_tile %8[%10, %3, %3] {access_tile_set = #set2, access_tile_order = #map} : memref<32x3x64xf16> -> !ktdp.access_tile<8x3x64xindex>
    ktdp.store %54, %55 : tensor<8x3x64xf16>, <8x3x64xindex>
    return
  }
}
