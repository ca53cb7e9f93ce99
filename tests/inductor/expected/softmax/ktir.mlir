#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @sdsc_fused_amax_div_exp_sub_sum_0_0(%arg0: index, %arg1: index) attributes {grid = [4]} {
    %0 = arith.constant 0.000000e+00 : f16
    %1 = arith.constant 0xfc00 : f16
    %2 = arith.constant 0 : index
    %3 = arith.constant 16 : index
    %4 = ktdp.construct_memory_view %arg0, sizes: [64, 4, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x4x64xf16>
    %5 = ktdp.construct_memory_view %arg1, sizes: [64, 4, 64], strides: [64, 4096, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64x4x64xf16>
    %6 = ktdp.get_compute_tile_id : index
    %7 = arith.muli %6, %3 : index
    %8 = ktdp.construct_access_tile %4[%7, %2, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<64x4x64xf16> -> !ktdp.access_tile<16x4x64xindex>
    %9 = ktdp.load %8 : <16x4x64xindex> -> tensor<16x4x64xf16>
    %10 = tensor.collapse_shape %9 [[0], [1, 2]] : tensor<16x4x64xf16> into tensor<16x256xf16>
    %11 = tensor.splat %1 : tensor<16xf16>
    %12 = linalg.reduce ins(%10:tensor<16x256xf16>) outs(%11:tensor<16xf16>) dimensions = [1]
    (%13: f16, %14: f16) {
      %15 = arith.maximumf %13, %14 : f16
      linalg.yield %15 : f16
    }
    %16 = tensor.empty() : tensor<16x256xf16>
    %17 = linalg.broadcast ins(%12:tensor<16xf16>) outs(%16:tensor<16x256xf16>) dimensions = [1]
    %18 = arith.subf %10, %17 : tensor<16x256xf16>
    %19 = math.exp %18 : tensor<16x256xf16>
    %20 = tensor.splat %0 : tensor<16xf16>
    %21 = linalg.reduce ins(%19:tensor<16x256xf16>) outs(%20:tensor<16xf16>) dimensions = [1]
    (%22: f16, %23: f16) {
      %24 = arith.addf %22, %23 : f16
      linalg.yield %24 : f16
    }
    %25 = tensor.empty() : tensor<16x256xf16>
    %26 = linalg.broadcast ins(%21:tensor<16xf16>) outs(%25:tensor<16x256xf16>) dimensions = [1]
    %27 = arith.divf %19, %26 : tensor<16x256xf16>
    %28 = tensor.expand_shape %27 [[0], [1, 2]] output_shape [16, 4, 64] : tensor<16x256xf16> into tensor<16x4x64xf16>
    %29 = ktdp.construct_access_tile %5[%7, %2, %2] {access_tile_set = #set1, access_tile_order = #map} : memref<64x4x64xf16> -> !ktdp.access_tile<16x4x64xindex>
    ktdp.store %28, %29 : tensor<16x4x64xf16>, <16x4x64xindex>
    return
  }
}
