// c = a b: 256x512 by 512x256 on a 4x8 grid. Each core computes a 64x32 tile of c in a loop over k.
// The accumulator is f32, so the sum is rounded to f16 once, at the end.
#a_all = affine_set<(m, k) : (m >= 0, -m + 255 >= 0, k >= 0, -k + 511 >= 0)>
#b_all = affine_set<(k, n) : (k >= 0, -k + 511 >= 0, n >= 0, -n + 255 >= 0)>
#c_all = affine_set<(m, n) : (m >= 0, -m + 255 >= 0, n >= 0, -n + 255 >= 0)>
#a_tile = affine_set<(m, k) : (m >= 0, -m + 63 >= 0, k >= 0, -k + 127 >= 0)>
#b_tile = affine_set<(k, n) : (k >= 0, -k + 127 >= 0, n >= 0, -n + 31 >= 0)>
#c_tile = affine_set<(m, n) : (m >= 0, -m + 63 >= 0, n >= 0, -n + 31 >= 0)>
#same = affine_map<(i, j) -> (i, j)>
module {
  func.func @matmul(%a: index, %b: index, %c: index) attributes {grid = [4, 8]} {
    %zero = arith.constant 0 : index
    %depth = arith.constant 512 : index
    %step = arith.constant 128 : index
    %rows = arith.constant 64 : index
    %columns = arith.constant 32 : index
    %x, %y = ktdp.get_compute_tile_id : index, index
    %m = arith.muli %x, %rows : index
    %n = arith.muli %y, %columns : index
    %as = ktdp.construct_memory_view %a, sizes: [256, 512], strides: [512, 1] {coordinate_set = #a_all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %bs = ktdp.construct_memory_view %b, sizes: [512, 256], strides: [256, 1] {coordinate_set = #b_all, memory_space = #ktdp.memory_space<global>} : memref<512x256xf16>
    %cs = ktdp.construct_memory_view %c, sizes: [256, 256], strides: [256, 1] {coordinate_set = #c_all, memory_space = #ktdp.memory_space<global>} : memref<256x256xf16>
    %none = arith.constant dense<0.0> : tensor<64x32xf32>
    %sum = scf.for %k = %zero to %depth step %step iter_args(%so_far = %none) -> (tensor<64x32xf32>) {
      %at = ktdp.construct_access_tile %as[%m, %k] {access_tile_set = #a_tile, access_tile_order = #same} : memref<256x512xf16> -> !ktdp.access_tile<64x128xindex>
      %bt = ktdp.construct_access_tile %bs[%k, %n] {access_tile_set = #b_tile, access_tile_order = #same} : memref<512x256xf16> -> !ktdp.access_tile<128x32xindex>
      %left = ktdp.load %at : <64x128xindex> -> tensor<64x128xf16>
      %right = ktdp.load %bt : <128x32xindex> -> tensor<128x32xf16>
      %more = linalg.matmul ins(%left, %right : tensor<64x128xf16>, tensor<128x32xf16>) outs(%so_far : tensor<64x32xf32>) -> tensor<64x32xf32>
      scf.yield %more : tensor<64x32xf32>
    }
    %rounded = arith.truncf %sum : tensor<64x32xf32> to tensor<64x32xf16>
    %ct = ktdp.construct_access_tile %cs[%m, %n] {access_tile_set = #c_tile, access_tile_order = #same} : memref<256x256xf16> -> !ktdp.access_tile<64x32xindex>
    ktdp.store %rounded, %ct : tensor<64x32xf16>, <64x32xindex>
    return
  }
}
