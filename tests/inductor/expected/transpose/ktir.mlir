#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 69 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 99 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @sdsc_fused_add_permute_0_0(%arg0: index, %arg1: index, %arg2: index) attributes {grid = [1]} {
    %0 = arith.constant 0 : index
    %1 = ktdp.construct_memory_view %arg1, sizes: [70, 2, 64], strides: [64, 4480, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<70x2x64xf16>
    %2 = ktdp.construct_memory_view %arg0, sizes: [100, 2, 64], strides: [64, 6400, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<100x2x64xf16>
    %3 = ktdp.construct_memory_view %arg2, sizes: [100, 2, 64], strides: [64, 6400, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<100x2x64xf16>
    %4 = ktdp.get_compute_tile_id : index
    %5 = ktdp.construct_access_tile %1[%0, %0, %0] {access_tile_set = #set, access_tile_order = #map} : memref<70x2x64xf16> -> !ktdp.access_tile<70x2x64xindex>
    %6 = ktdp.load %5 : <70x2x64xindex> -> tensor<70x2x64xf16>
    %7 = tensor.collapse_shape %6 [[0], [1, 2]] : tensor<70x2x64xf16> into tensor<70x128xf16>
    %8 = tensor.extract_slice %7[0, 0] [70, 100] [1, 1] : tensor<70x128xf16> to tensor<70x100xf16>
    %9 = ktdp.construct_access_tile %2[%0, %0, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<100x2x64xf16> -> !ktdp.access_tile<100x2x64xindex>
    %10 = ktdp.load %9 : <100x2x64xindex> -> tensor<100x2x64xf16>
    %11 = tensor.collapse_shape %10 [[0], [1, 2]] : tensor<100x2x64xf16> into tensor<100x128xf16>
    %12 = tensor.extract_slice %11[0, 0] [100, 70] [1, 1] : tensor<100x128xf16> to tensor<100x70xf16>
    %13 = tensor.empty() : tensor<70x100xf16>
    %14 = linalg.transpose ins(%12:tensor<100x70xf16>) outs(%13:tensor<70x100xf16>) permutation = [1, 0]
    %15 = arith.addf %14, %8 : tensor<70x100xf16>
    %16 = tensor.empty() : tensor<100x70xf16>
    %17 = linalg.transpose ins(%15:tensor<70x100xf16>) outs(%16:tensor<100x70xf16>) permutation = [1, 0]
    %18 = tensor.empty() : tensor<100x128xf16>
    %19 = tensor.insert_slice %17 into %18[0, 0] [100, 70] [1, 1] : tensor<100x70xf16> into tensor<100x128xf16>
    %20 = tensor.expand_shape %19 [[0], [1, 2]] output_shape [100, 2, 64] : tensor<100x128xf16> into tensor<100x2x64xf16>
    %21 = ktdp.construct_access_tile %3[%0, %0, %0] {access_tile_set = #set1, access_tile_order = #map} : memref<100x2x64xf16> -> !ktdp.access_tile<100x2x64xindex>
    ktdp.store %20, %21 : tensor<100x2x64xf16>, <100x2x64xindex>
    return
  }
}
