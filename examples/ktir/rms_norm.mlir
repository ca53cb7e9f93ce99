// RMS norm of 256x512 with a weight: the sum of squares is one fused reduction in f32.
#all = affine_set<(r, c) : (r >= 0, -r + 255 >= 0, c >= 0, -c + 511 >= 0)>
#tile = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 511 >= 0)>
#line = affine_set<(c) : (c >= 0, -c + 511 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
#same1 = affine_map<(c) -> (c)>
#keep = affine_map<(r, c) -> (r)>
module {
  func.func @rms_norm(%x: index, %weight: index, %y: index, %epsilon: f32) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %none = arith.constant dense<0.0> : tensor<8xf32>
    %scale = arith.constant dense<0.001953125> : tensor<8xf32>
    %core = ktdp.get_compute_tile_id : index
    %r = arith.muli %core, %eight : index
    %xs = ktdp.construct_memory_view %x, sizes: [256, 512], strides: [512, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [256, 512], strides: [512, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %ws = ktdp.construct_memory_view %weight, sizes: [512], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<512xf16>
    %xt = ktdp.construct_access_tile %xs[%r, %zero] {access_tile_set = #tile, access_tile_order = #same} : memref<256x512xf16> -> !ktdp.access_tile<8x512xindex>
    %yt = ktdp.construct_access_tile %ys[%r, %zero] {access_tile_set = #tile, access_tile_order = #same} : memref<256x512xf16> -> !ktdp.access_tile<8x512xindex>
    %wt = ktdp.construct_access_tile %ws[%zero] {access_tile_set = #line, access_tile_order = #same1} : memref<512xf16> -> !ktdp.access_tile<512xindex>
    %rows = ktdp.load %xt : <8x512xindex> -> tensor<8x512xf16>
    %w = ktdp.load %wt : <512xindex> -> tensor<512xf16>
    %total = linalg.generic {indexing_maps = [#same, #keep], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<8x512xf16>) outs(%none : tensor<8xf32>) {
    ^bb0(%value: f16, %sum: f32):
      %wide = arith.extf %value : f16 to f32
      %square = arith.mulf %wide, %wide : f32
      %next = arith.addf %square, %sum : f32
      linalg.yield %next : f32
    } -> tensor<8xf32>
    %mean = arith.mulf %total, %scale : tensor<8xf32>
    %epsilons = tensor.splat %epsilon : tensor<8xf32>
    %safe = arith.addf %mean, %epsilons : tensor<8xf32>
    %inverse = math.rsqrt %safe : tensor<8xf32>
    %short = arith.truncf %inverse : tensor<8xf32> to tensor<8xf16>
    %like = tensor.empty() : tensor<8x512xf16>
    %inverses = linalg.broadcast ins(%short : tensor<8xf16>) outs(%like : tensor<8x512xf16>) dimensions = [1]
    %weights = linalg.broadcast ins(%w : tensor<512xf16>) outs(%like : tensor<8x512xf16>) dimensions = [0]
    %normal = arith.mulf %rows, %inverses : tensor<8x512xf16>
    %result = arith.mulf %normal, %weights : tensor<8x512xf16>
    ktdp.store %result, %yt : tensor<8x512xf16>, <8x512xindex>
    return
  }
}
