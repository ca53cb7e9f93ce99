// 128x256 times 256x512 on a 4x8 grid, with a loop over K that carries the sum.
#a_all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 127 >= 0, d1 >= 0, -d1 + 255 >= 0)>
#b_all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 255 >= 0, d1 >= 0, -d1 + 511 >= 0)>
#c_all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 127 >= 0, d1 >= 0, -d1 + 511 >= 0)>
#a_tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#square = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @matmul(%a: index, %b: index, %c: index) attributes {grid = [4, 8]} {
    %zero = arith.constant 0 : index
    %depth = arith.constant 256 : index
    %step = arith.constant 64 : index
    %i, %j = ktdp.get_compute_tile_id : index, index
    %av = ktdp.construct_memory_view %a, sizes: [128, 256], strides: [256, 1] {coordinate_set = #a_all, memory_space = #ktdp.memory_space<global>} : memref<128x256xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [256, 512], strides: [512, 1] {coordinate_set = #b_all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [128, 512], strides: [512, 1] {coordinate_set = #c_all, memory_space = #ktdp.memory_space<global>} : memref<128x512xf16>
    %nil = arith.constant 0.0 : f16
    %empty = tensor.empty() : tensor<32x64xf16>
    %init = linalg.fill ins(%nil : f16) outs(%empty : tensor<32x64xf16>) -> tensor<32x64xf16>
    %sum = scf.for %p = %zero to %depth step %step iter_args(%so_far = %init) -> tensor<32x64xf16> {
      %at = ktdp.construct_access_tile %av[%i * 32, %p] {access_tile_set = #a_tile} : memref<128x256xf16> -> !ktdp.access_tile<32x64xindex>
      %bt = ktdp.construct_access_tile %bv[%p, 64 * %j] {access_tile_set = #square} : memref<256x512xf16> -> !ktdp.access_tile<64x64xindex>
      %x = ktdp.load %at : <32x64xindex> -> tensor<32x64xf16>
      %y = ktdp.load %bt : <64x64xindex> -> tensor<64x64xf16>
      %z = linalg.matmul ins(%x, %y : tensor<32x64xf16>, tensor<64x64xf16>) outs(%so_far : tensor<32x64xf16>) -> tensor<32x64xf16>
      scf.yield %z : tensor<32x64xf16>
    }
    %ct = ktdp.construct_access_tile %cv[%i * 32, %j * 64] {access_tile_set = #a_tile} : memref<128x512xf16> -> !ktdp.access_tile<32x64xindex>
    ktdp.store %sum, %ct : tensor<32x64xf16>, <32x64xindex>
    return
  }
}
