#set = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 69 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 89 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 >= 0, d2 >= 0, -d2 + 69 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 89 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map2 = affine_map<(d0) -> (d0)>
module {
  func.func @sdsc_fused_attention_0_0(%arg0: index, %arg1: index, %arg2: index, %arg3: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f32
    %1 = arith.constant 0xff800000 : f32
    %2 = arith.constant 1.250000e-01 : f16
    %3 = arith.constant 0 : index
    %4 = arith.constant 2 : index
    %5 = ktdp.construct_memory_view %arg0, sizes: [4, 4, 70, 64], strides: [8960, 4480, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x4x70x64xf16>
    %6 = ktdp.construct_memory_view %arg1, sizes: [2, 90, 64], strides: [5760, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<2x90x64xf16>
    %7 = ktdp.construct_memory_view %arg2, sizes: [2, 90, 64], strides: [5760, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<2x90x64xf16>
    %8 = ktdp.construct_memory_view %arg3, sizes: [4, 4, 70, 64], strides: [8960, 4480, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x4x70x64xf16>
    %9 = ktdp.get_compute_tile_id : index
    %10 = arith.remui %9, %4 : index
    %11 = arith.divui %9, %4 : index
    %12 = ktdp.construct_access_tile %5[%10, %11, %3, %3] {access_tile_set = #set2, access_tile_order = #map} : memref<4x4x70x64xf16> -> !ktdp.access_tile<1x1x70x64xindex>
    %13 = ktdp.load %12 : <1x1x70x64xindex> -> tensor<1x1x70x64xf16>
    %14 = tensor.collapse_shape %13 [[0, 1, 2], [3]] : tensor<1x1x70x64xf16> into tensor<70x64xf16>
    %15 = tensor.splat %2 : tensor<70x64xf16>
    %16 = arith.mulf %14, %15 : tensor<70x64xf16>
    %17 = tensor.splat %1 : tensor<1x70xf32>
    %18 = tensor.splat %0 : tensor<1x70xf32>
    %19 = tensor.splat %0 : tensor<70x64xf32>
    %20 = ktdp.construct_access_tile %6[%10, %3, %3] {access_tile_set = #set3, access_tile_order = #map1} : memref<2x90x64xf16> -> !ktdp.access_tile<1x90x64xindex>
    %21 = ktdp.load %20 : <1x90x64xindex> -> tensor<1x90x64xf16>
    %22 = tensor.collapse_shape %21 [[0, 1], [2]] : tensor<1x90x64xf16> into tensor<90x64xf16>
    %23 = tensor.splat %0 : tensor<70x90xf32>
    %24 = tensor.empty() : tensor<64x90xf16>
    %25 = linalg.transpose ins(%22:tensor<90x64xf16>) outs(%24:tensor<64x90xf16>) permutation = [1, 0]
    %26 = linalg.matmul ins(%16, %25 : tensor<70x64xf16>, tensor<64x90xf16>) outs(%23 : tensor<70x90xf32>) -> tensor<70x90xf32>
    %27 = tensor.expand_shape %26 [[0, 1], [2]] output_shape [1, 70, 90] : tensor<70x90xf32> into tensor<1x70x90xf32>
    %28 = tensor.empty() : tensor<90xi32>
    %29 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%28 : tensor<90xi32>) {
    ^bb0(%30: i32):
      %31 = linalg.index 0 : index
      %32 = arith.addi %31, %3 : index
      %33 = arith.index_cast %32 : index to i32
      linalg.yield %33 : i32
    } -> tensor<90xi32>
    %34 = tensor.empty() : tensor<1x70x90xi32>
    %35 = linalg.broadcast ins(%29:tensor<90xi32>) outs(%34:tensor<1x70x90xi32>) dimensions = [0, 1]
    %36 = tensor.empty() : tensor<70xi32>
    %37 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%36 : tensor<70xi32>) {
    ^bb0(%38: i32):
      %39 = linalg.index 0 : index
      %40 = arith.addi %39, %3 : index
      %41 = arith.index_cast %40 : index to i32
      linalg.yield %41 : i32
    } -> tensor<70xi32>
    %42 = tensor.empty() : tensor<1x70x90xi32>
    %43 = linalg.broadcast ins(%37:tensor<70xi32>) outs(%42:tensor<1x70x90xi32>) dimensions = [0, 2]
    %44 = arith.cmpi sle, %35, %43 : tensor<1x70x90xi32>
    %45 = tensor.splat %1 : tensor<1x70x90xf32>
    %46 = arith.select %44, %27, %45 : tensor<1x70x90xi1>, tensor<1x70x90xf32>
    %47 = linalg.reduce ins(%46:tensor<1x70x90xf32>) outs(%17:tensor<1x70xf32>) dimensions = [2]
    (%48: f32, %49: f32) {
      %50 = arith.maximumf %48, %49 : f32
      linalg.yield %50 : f32
    }
    %51 = arith.subf %17, %47 : tensor<1x70xf32>
    %52 = math.exp %51 : tensor<1x70xf32>
    %53 = tensor.empty() : tensor<1x70x90xf32>
    %54 = linalg.broadcast ins(%47:tensor<1x70xf32>) outs(%53:tensor<1x70x90xf32>) dimensions = [2]
    %55 = arith.subf %46, %54 : tensor<1x70x90xf32>
    %56 = math.exp %55 : tensor<1x70x90xf32>
    %57 = arith.mulf %18, %52 : tensor<1x70xf32>
    %58 = linalg.reduce ins(%56:tensor<1x70x90xf32>) outs(%57:tensor<1x70xf32>) dimensions = [2]
    (%59: f32, %60: f32) {
      %61 = arith.addf %59, %60 : f32
      linalg.yield %61 : f32
    }
    %62 = ktdp.construct_access_tile %7[%10, %3, %3] {access_tile_set = #set3, access_tile_order = #map1} : memref<2x90x64xf16> -> !ktdp.access_tile<1x90x64xindex>
    %63 = ktdp.load %62 : <1x90x64xindex> -> tensor<1x90x64xf16>
    %64 = tensor.collapse_shape %63 [[0, 1], [2]] : tensor<1x90x64xf16> into tensor<90x64xf16>
    %65 = tensor.collapse_shape %52 [[0, 1]] : tensor<1x70xf32> into tensor<70xf32>
    %66 = tensor.empty() : tensor<70x64xf32>
    %67 = linalg.broadcast ins(%65:tensor<70xf32>) outs(%66:tensor<70x64xf32>) dimensions = [1]
    %68 = arith.mulf %19, %67 : tensor<70x64xf32>
    %69 = tensor.collapse_shape %56 [[0, 1], [2]] : tensor<1x70x90xf32> into tensor<70x90xf32>
    %70 = arith.truncf %69 : tensor<70x90xf32> to tensor<70x90xf16>
    %71 = linalg.matmul ins(%70, %64 : tensor<70x90xf16>, tensor<90x64xf16>) outs(%68 : tensor<70x64xf32>) -> tensor<70x64xf32>
    %72 = tensor.collapse_shape %58 [[0, 1]] : tensor<1x70xf32> into tensor<70xf32>
    %73 = tensor.empty() : tensor<70x64xf32>
    %74 = linalg.broadcast ins(%72:tensor<70xf32>) outs(%73:tensor<70x64xf32>) dimensions = [1]
    %75 = arith.divf %71, %74 : tensor<70x64xf32>
    %76 = arith.truncf %75 : tensor<70x64xf32> to tensor<70x64xf16>
    %77 = tensor.collapse_shape %76 [[0, 1]] : tensor<70x64xf16> into tensor<4480xf16>
    %78 = tensor.expand_shape %77 [[0, 1, 2]] output_shape [1, 70, 64] : tensor<4480xf16> into tensor<1x70x64xf16>
    %79 = tensor.empty() : tensor<1x1x70x64xf16>
    %80 = linalg.broadcast ins(%78:tensor<1x70x64xf16>) outs(%79:tensor<1x1x70x64xf16>) dimensions = [0]
    %81 = ktdp.construct_access_tile %8[%10, %11, %3, %3] {access_tile_set = #set2, access_tile_order = #map} : memref<4x4x70x64xf16> -> !ktdp.access_tile<1x1x70x64xindex>
    ktdp.store %80, %81 : tensor<1x1x70x64xf16>, <1x1x70x64xindex>
    return
  }
}
