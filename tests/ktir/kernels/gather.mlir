// Rows of a table by number; then the same through a page table, with floordiv and mod.
#table = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#box4x64 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#four = affine_set<(d0) : (d0 >= 0, -d0 + 3 >= 0)>
#pages = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 3 >= 0)>
#cache = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 127 >= 0)>
#tokens = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @gather(%t: index, %i: index, %y: index) {
    %zero = arith.constant 0 : index
    %table = ktdp.construct_memory_view %t, sizes: [32, 64], strides: [64, 1] {coordinate_set = #table, memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %ids = ktdp.construct_memory_view %i, sizes: [4], strides: [1] {coordinate_set = #four, memory_space = #ktdp.memory_space<global>} : memref<4xi32>
    %out = ktdp.construct_memory_view %y, sizes: [4, 64], strides: [64, 1] {coordinate_set = #box4x64, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>
    %gt = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c)
            %table[ind(%ids[%r]), (%c)] {variables_space_order = #id2, variables_space_set = #box4x64}
            : memref<32x64xf16>, memref<4xi32> -> !ktdp.access_tile<4x64xindex>
    %rows = ktdp.load %gt : <4x64xindex> -> tensor<4x64xf16>
    %yt = ktdp.construct_access_tile %out[%zero, %zero] {access_tile_set = #box4x64, access_tile_order = #id2} : memref<4x64xf16> -> !ktdp.access_tile<4x64xindex>
    ktdp.store %rows, %yt : tensor<4x64xf16>, <4x64xindex>
    return
  }

  func.func @paged(%k: index, %p: index, %y: index, %batch: index, %first: index) {
    %keys = ktdp.construct_memory_view %k, sizes: [16, 64, 128], strides: [8192, 128, 1] {coordinate_set = #cache, memory_space = #ktdp.memory_space<global>} : memref<16x64x128xf16>
    %pages = ktdp.construct_memory_view %p, sizes: [2, 4], strides: [4, 1] {coordinate_set = #pages, memory_space = #ktdp.memory_space<global>} : memref<2x4xi64>
    %kt = ktdp.construct_indirect_access_tile intermediate_variables(%token, %d)
            %keys[ind(%pages[%batch, (%first + %token) floordiv 64]), ((%first + %token) mod 64), %d]
            {variables_space_set = #tokens, variables_space_order = #id2}
            : memref<16x64x128xf16>, memref<2x4xi64> -> !ktdp.access_tile<8x128xindex>
    %rows = ktdp.load %kt : <8x128xindex> -> tensor<8x128xf16>
    %zero = arith.constant 0 : index
    %out = ktdp.construct_memory_view %y, sizes: [8, 128], strides: [128, 1] {coordinate_set = #tokens, memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %yt = ktdp.construct_access_tile %out[%zero, %zero] {access_tile_set = #tokens, access_tile_order = #id2} : memref<8x128xf16> -> !ktdp.access_tile<8x128xindex>
    ktdp.store %rows, %yt : tensor<8x128xf16>, <8x128xindex>
    return
  }
}
