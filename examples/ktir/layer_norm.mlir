// Layer norm over the last dim of 256x512, with weight and bias. A core processes 8 rows at once.
// Mean and variance are computed in f32.
#all = affine_set<(r, c) : (r >= 0, -r + 255 >= 0, c >= 0, -c + 511 >= 0)>
#tile = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 511 >= 0)>
#line = affine_set<(c) : (c >= 0, -c + 511 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
#same1 = affine_map<(c) -> (c)>
module {
  func.func @layer_norm(%x: index, %weight: index, %bias: index, %y: index, %epsilon: f32) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %none = arith.constant dense<0.0> : tensor<8xf32>
    %scale = arith.constant dense<0.001953125> : tensor<8xf32>
    %core = ktdp.get_compute_tile_id : index
    %r = arith.muli %core, %eight : index
    %xs = ktdp.construct_memory_view %x, sizes: [256, 512], strides: [512, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [256, 512], strides: [512, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x512xf16>
    %ws = ktdp.construct_memory_view %weight, sizes: [512], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<512xf16>
    %bs = ktdp.construct_memory_view %bias, sizes: [512], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<512xf16>
    %xt = ktdp.construct_access_tile %xs[%r, %zero] {access_tile_set = #tile, access_tile_order = #same} : memref<256x512xf16> -> !ktdp.access_tile<8x512xindex>
    %yt = ktdp.construct_access_tile %ys[%r, %zero] {access_tile_set = #tile, access_tile_order = #same} : memref<256x512xf16> -> !ktdp.access_tile<8x512xindex>
    %wt = ktdp.construct_access_tile %ws[%zero] {access_tile_set = #line, access_tile_order = #same1} : memref<512xf16> -> !ktdp.access_tile<512xindex>
    %bt = ktdp.construct_access_tile %bs[%zero] {access_tile_set = #line, access_tile_order = #same1} : memref<512xf16> -> !ktdp.access_tile<512xindex>
    %half = ktdp.load %xt : <8x512xindex> -> tensor<8x512xf16>
    %w = ktdp.load %wt : <512xindex> -> tensor<512xf16>
    %b = ktdp.load %bt : <512xindex> -> tensor<512xf16>
    %rows = arith.extf %half : tensor<8x512xf16> to tensor<8x512xf32>
    %sum = linalg.reduce { arith.addf } ins(%rows : tensor<8x512xf32>) outs(%none : tensor<8xf32>) dimensions = [1]
    %mean = arith.mulf %sum, %scale : tensor<8xf32>
    %shape = tensor.empty() : tensor<8x512xf32>
    %means = linalg.broadcast ins(%mean : tensor<8xf32>) outs(%shape : tensor<8x512xf32>) dimensions = [1]
    %centred = arith.subf %rows, %means : tensor<8x512xf32>
    %squares = arith.mulf %centred, %centred : tensor<8x512xf32>
    %total = linalg.reduce { arith.addf } ins(%squares : tensor<8x512xf32>) outs(%none : tensor<8xf32>) dimensions = [1]
    %variance = arith.mulf %total, %scale : tensor<8xf32>
    %epsilons = tensor.splat %epsilon : tensor<8xf32>
    %safe = arith.addf %variance, %epsilons : tensor<8xf32>
    %inverse = math.rsqrt %safe : tensor<8xf32>
    %inverses = linalg.broadcast ins(%inverse : tensor<8xf32>) outs(%shape : tensor<8x512xf32>) dimensions = [1]
    %normal = arith.mulf %centred, %inverses : tensor<8x512xf32>
    %short = arith.truncf %normal : tensor<8x512xf32> to tensor<8x512xf16>
    %like = tensor.empty() : tensor<8x512xf16>
    %weights = linalg.broadcast ins(%w : tensor<512xf16>) outs(%like : tensor<8x512xf16>) dimensions = [0]
    %biases = linalg.broadcast ins(%b : tensor<512xf16>) outs(%like : tensor<8x512xf16>) dimensions = [0]
    %scaled = arith.mulf %short, %weights : tensor<8x512xf16>
    %result = arith.addf %scaled, %biases : tensor<8x512xf16>
    ktdp.store %result, %yt : tensor<8x512xf16>, <8x512xindex>
    return
  }
}
