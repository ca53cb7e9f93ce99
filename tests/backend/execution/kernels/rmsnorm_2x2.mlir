// RMS norm of 64x128 on a 2x2 grid: x is the half of the columns, y the half of the rows.
// A row's sum of squares joins the two cores of a row of the grid: {0, 1} and {2, 3}.
#left = affine_set<(r, c) : (r >= 0, -r + 63 >= 0, c >= 0, -c + 63 >= 0)>
#right = affine_set<(r, c) : (r >= 0, -r + 63 >= 0, c - 64 >= 0, -c + 127 >= 0)>
#tile = affine_set<(r, c) : (0 <= r, r <= 31, 0 <= c, c <= 63)>
#w = affine_set<(c) : (c >= 0, -c + 63 >= 0)>
#line = affine_set<(c) : (c >= 0, -c + 127 >= 0)>
#id = affine_map<(r, c) -> (r, c)>
#pair = affine_set<(i)[g] : (i - 2*g >= 0, -i + 2*g + 1 >= 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
func.func @rmsnorm(%x0: index, %x1: index, %weight: index, %y0: index, %y1: index) attributes {grid = [2, 2]} {
  %zero = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %gx, %gy = ktdp.get_compute_tile_id : index, index
  %r = %gy * %c32 : index
  %c = %gx * %c64 : index
  %xa = ktdp.construct_memory_view %x0, sizes: [64, 64], strides: [64, 1] {coordinate_set = #left, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
  %xb = ktdp.construct_memory_view %x1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #right, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
  %x = ktdp.construct_distributed_memory_view (%xa, %xb : memref<64x64xf16>, memref<64x64xf16>) : memref<64x128xf16>
  %ya = ktdp.construct_memory_view %y0, sizes: [64, 64], strides: [64, 1] {coordinate_set = #left, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
  %yb = ktdp.construct_memory_view %y1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #right, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
  %y = ktdp.construct_distributed_memory_view (%ya, %yb : memref<64x64xf16>, memref<64x64xf16>) : memref<64x128xf16>
  %wv = ktdp.construct_memory_view %weight, sizes: [128], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
  %xt = ktdp.construct_access_tile %x[%r, %c] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<32x64xindex>
  %wt = ktdp.construct_access_tile %wv[%c] {access_tile_set = #w, access_tile_order = affine_map<(c) -> (c)>} : memref<128xf16> -> !ktdp.access_tile<64xindex>
  %v = ktdp.load %xt : <32x64xindex> -> tensor<32x64xf16>
  %w = ktdp.load %wt : <64xindex> -> tensor<64xf16>
  %wide = arith.extf %v : tensor<32x64xf16> to tensor<32x64xf32>
  %squares = arith.mulf %wide, %wide : tensor<32x64xf32>
  %none = arith.constant dense<0.0> : tensor<32xf32>
  %part = linalg.reduce { arith.addf } ins(%squares : tensor<32x64xf32>) outs(%none : tensor<32xf32>) dimensions = [1]
  %f = ktdp.inter_tile_produce producer_tiles_per_group = #pair -> <(tensor<32xf32>), groups = #groups>
  {
    ^bb0(%gid: index):
      ktdp.yield_partial %part : tensor<32xf32>
  }
  %sum = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #pair, identity(%none : tensor<32xf32>) : <(tensor<32xf32>), groups = #groups> -> tensor<32xf32>
  {
    ^bb0(%l: tensor<32xf32>, %rr: tensor<32xf32>):
      %e = tensor.empty() : tensor<32xf32>
      %a = linalg.add ins(%l, %rr : tensor<32xf32>, tensor<32xf32>) outs(%e : tensor<32xf32>) -> tensor<32xf32>
      ktdp.yield_reduced %a : tensor<32xf32>
  }
  %scale = arith.constant dense<0.0078125> : tensor<32xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<32xf32>
  %mean = arith.mulf %sum, %scale : tensor<32xf32>
  %safe = arith.addf %mean, %eps : tensor<32xf32>
  %inv = math.rsqrt %safe : tensor<32xf32>
  %like = tensor.empty() : tensor<32x64xf32>
  %invs = linalg.broadcast ins(%inv : tensor<32xf32>) outs(%like : tensor<32x64xf32>) dimensions = [1]
  %n = arith.mulf %wide, %invs : tensor<32x64xf32>
  %n16 = arith.truncf %n : tensor<32x64xf32> to tensor<32x64xf16>
  %like16 = tensor.empty() : tensor<32x64xf16>
  %ws = linalg.broadcast ins(%w : tensor<64xf16>) outs(%like16 : tensor<32x64xf16>) dimensions = [0]
  %o = arith.mulf %n16, %ws : tensor<32x64xf16>
  %yt = ktdp.construct_access_tile %y[%r, %c] {access_tile_set = #tile, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<32x64xindex>
  ktdp.store %o, %yt : tensor<32x64xf16>, <32x64xindex>
  return
}
