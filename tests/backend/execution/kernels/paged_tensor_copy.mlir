// A tile of a paged cache far larger than a scratchpad: 4 x 8 x 2048 x 128 halves are 16 MiB.
#space = affine_set<(b, h, t, d) : (b >= 0, -b + 3 >= 0, h >= 0, -h + 7 >= 0, t >= 0, -t + 2047 >= 0, d >= 0, -d + 127 >= 0)>
#id = affine_map<(b, h, t, d) -> (b, h, t, d)>
module {
  func.func @paged_copy(%cache: index, %pt: index, %out: index, %heads: index, %page: index) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %row = arith.muli %page, %c128 : index
    %block = arith.muli %row, %heads : index
    %cv = ktdp.construct_memory_view %cache, sizes: [128, %heads, %page, 128], strides: [%block, %row, 128, 1] {memory_space = #ktdp.spyre_memory_space<HBM>} : memref<128x?x?x128xf16>
    %tv = ktdp.construct_memory_view %pt, sizes: [4, 32], strides: [32, 1] {memory_space = #ktdp.spyre_memory_space<HBM>} : memref<4x32xi32>
    %t = ktdp.construct_indirect_access_tile intermediate_variables(%b, %h, %tk, %d) %cv[ind(%tv[%b, %tk floordiv 64]), (%h), (%tk mod 64), (%d)] {variables_space_set = #space, variables_space_order = #id} : memref<128x?x?x128xf16>, memref<4x32xi32> -> !ktdp.access_tile<4x8x2048x128xindex>
    %x = ktdp.load %t : <4x8x2048x128xindex> -> tensor<4x8x2048x128xf16>
    %ov = ktdp.construct_memory_view %out, sizes: [4, 8, 2048, 128], strides: [2097152, 262144, 128, 1] {memory_space = #ktdp.spyre_memory_space<HBM>} : memref<4x8x2048x128xf16>
    %o = ktdp.construct_access_tile %ov[%c0, %c0, %c0, %c0] {access_tile_set = #space, access_tile_order = #id} : memref<4x8x2048x128xf16> -> !ktdp.access_tile<4x8x2048x128xindex>
    ktdp.store %x, %o : tensor<4x8x2048x128xf16>, <4x8x2048x128xindex>
    return
  }
}
