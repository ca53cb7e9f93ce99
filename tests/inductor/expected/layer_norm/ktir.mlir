#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @sdsc_fused_add_mean_mul_rsqrt_sub_0_0(%arg0: index, %arg1: index, %arg2: index, %arg3: index) attributes {grid = [4]} {
    %0 = arith.constant 1.000000e-05 : f32
    %1 = arith.truncf %0 : f32 to f16
    %2 = arith.constant 0.00520833349 : f32
    %3 = arith.constant 0.000000e+00 : f32
    %4 = arith.constant 0 : index
    %5 = arith.constant 8 : index
    %6 = ktdp.construct_memory_view %arg0, sizes: [32, 3, 64], strides: [64, 2048, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32x3x64xf16>
    %7 = ktdp.construct_memory_view %arg1, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %8 = ktdp.construct_memory_view %arg2, sizes: [3, 64], strides: [64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %9 = ktdp.construct_memory_view %arg3, sizes: [32, 3, 64], strides: [64, 2048, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32x3x64xf16>
    %10 = ktdp.get_compute_tile_id : index
    %11 = arith.muli %10, %5 : index
    %12 = ktdp.construct_access_tile %6[%11, %4, %4] {access_tile_set = #set2, access_tile_order = #map} : memref<32x3x64xf16> -> !ktdp.access_tile<8x3x64xindex>
    %13 = ktdp.load %12 : <8x3x64xindex> -> tensor<8x3x64xf16>
    %14 = tensor.collapse_shape %13 [[0], [1, 2]] : tensor<8x3x64xf16> into tensor<8x192xf16>
    %15 = tensor.splat %3 : tensor<8xf32>
    %16 = arith.extf %14 : tensor<8x192xf16> to tensor<8x192xf32>
    %17 = linalg.reduce ins(%16:tensor<8x192xf32>) outs(%15:tensor<8xf32>) dimensions = [1]
    (%18: f32, %19: f32) {
      %20 = arith.addf %18, %19 : f32
      linalg.yield %20 : f32
    }
    %21 = tensor.splat %2 : tensor<8xf32>
    %22 = arith.mulf %17, %21 : tensor<8xf32>
    %23 = arith.truncf %22 : tensor<8xf32> to tensor<8xf16>
    %24 = tensor.empty() : tensor<8x192xf16>
    %25 = linalg.broadcast ins(%23:tensor<8xf16>) outs(%24:tensor<8x192xf16>) dimensions = [1]
    %26 = arith.subf %14, %25 : tensor<8x192xf16>
    %27 = arith.mulf %26, %26 : tensor<8x192xf16>
    %28 = tensor.splat %3 : tensor<8xf32>
    %29 = arith.extf %27 : tensor<8x192xf16> to tensor<8x192xf32>
    %30 = linalg.reduce ins(%29:tensor<8x192xf32>) outs(%28:tensor<8xf32>) dimensions = [1]
    (%31: f32, %32: f32) {
      %33 = arith.addf %31, %32 : f32
      linalg.yield %33 : f32
    }
    %34 = tensor.splat %2 : tensor<8xf32>
    %35 = arith.mulf %30, %34 : tensor<8xf32>
    %36 = arith.truncf %35 : tensor<8xf32> to tensor<8xf16>
    %37 = tensor.splat %1 : tensor<8xf16>
    %38 = arith.addf %36, %37 : tensor<8xf16>
    %39 = math.rsqrt %38 : tensor<8xf16>
    %40 = tensor.empty() : tensor<8x192xf16>
    %41 = linalg.broadcast ins(%39:tensor<8xf16>) outs(%40:tensor<8x192xf16>) dimensions = [1]
    %42 = arith.mulf %26, %41 : tensor<8x192xf16>
    %43 = ktdp.construct_access_tile %7[%4, %4] {access_tile_set = #set1, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %44 = ktdp.load %43 : <3x64xindex> -> tensor<3x64xf16>
    %45 = tensor.collapse_shape %44 [[0, 1]] : tensor<3x64xf16> into tensor<192xf16>
    %46 = tensor.empty() : tensor<8x192xf16>
    %47 = linalg.broadcast ins(%45:tensor<192xf16>) outs(%46:tensor<8x192xf16>) dimensions = [0]
    %48 = arith.mulf %42, %47 : tensor<8x192xf16>
    %49 = ktdp.construct_access_tile %8[%4, %4] {access_tile_set = #set1, access_tile_order = #map1} : memref<3x64xf16> -> !ktdp.access_tile<3x64xindex>
    %50 = ktdp.load %49 : <3x64xindex> -> tensor<3x64xf16>
    %51 = tensor.collapse_shape %50 [[0, 1]] : tensor<3x64xf16> into tensor<192xf16>
    %52 = tensor.empty() : tensor<8x192xf16>
    %53 = linalg.broadcast ins(%51:tensor<192xf16>) outs(%52:tensor<8x192xf16>) dimensions = [0]
    %54 = arith.addf %48, %53 : tensor<8x192xf16>
    %55 = tensor.expand_shape %54 [[0], [1, 2]] output_shape [8, 3, 64] : tensor<8x192xf16> into tensor<8x3x64xf16>
    %56 = ktdp.construct_access_tile %9[%11, %4, %4] {access_tile_set = #set2, access_tile_order = #map} : memref<32x3x64xf16> -> !ktdp.access_tile<8x3x64xindex>
    ktdp.store %55, %56 : tensor<8x3x64xf16>, <8x3x64xindex>
    return
  }
}
