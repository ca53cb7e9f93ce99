// Layer norm over rows, in f32, with explicit reduce regions, scale and bias.
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 255 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#line = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>
#id1 = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @layer_norm(%x: index, %w: index, %b: index, %y: index, %epsilon: f32, %width: i32) attributes {grid = [16]} {
    %zero = arith.constant 0 : index
    %rows = arith.constant 256 : index
    %cores = arith.constant 16 : index
    %count = arith.sitofp %width : i32 to f32
    %me = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [256, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x128xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [256, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<256x128xf16>
    %wv = ktdp.construct_memory_view %w, sizes: [128], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [128], strides: [1] {coordinate_set = #line, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %wt = ktdp.construct_access_tile %wv[%zero] {access_tile_set = #line, access_tile_order = #id1} : memref<128xf16> -> <128xindex>
    %bt = ktdp.construct_access_tile %bv[%zero] {access_tile_set = #line, access_tile_order = #id1} : memref<128xf16> -> <128xindex>
    %weights = ktdp.load %wt : <128xindex> -> tensor<128xf16>
    %biases = ktdp.load %bt : <128xindex> -> tensor<128xf16>
    scf.for %r = %me to %rows step %cores {
      %xt = ktdp.construct_access_tile %xv[%r, %zero] {access_tile_set = #row, access_tile_order = #id2} : memref<256x128xf16> -> <1x128xindex>
      %yt = ktdp.construct_access_tile %yv[%r, %zero] {access_tile_set = #row, access_tile_order = #id2} : memref<256x128xf16> -> <1x128xindex>
      %half = ktdp.load %xt : <1x128xindex> -> tensor<1x128xf16>
      %flat = tensor.collapse_shape %half [[0, 1]] : tensor<1x128xf16> into tensor<128xf16>
      %v = arith.extf %flat : tensor<128xf16> to tensor<128xf32>
      %nil = arith.constant dense<0.0> : tensor<f32>
      %sum = linalg.reduce ins(%v : tensor<128xf32>) outs(%nil : tensor<f32>) dimensions = [0]
        (%in: f32, %out: f32) {
          %s = arith.addf %in, %out : f32
          linalg.yield %s : f32
        }
      %total = tensor.extract %sum[] : tensor<f32>
      %mean = arith.divf %total, %count : f32
      %means = tensor.splat %mean : tensor<128xf32>
      %centred = arith.subf %v, %means : tensor<128xf32>
      %squares = arith.mulf %centred, %centred : tensor<128xf32>
      %spread = linalg.reduce { arith.addf } ins(%squares : tensor<128xf32>) outs(%nil : tensor<f32>) dimensions = [0]
      %power = tensor.extract %spread[] : tensor<f32>
      %variance = arith.divf %power, %count : f32
      %safe = arith.addf %variance, %epsilon : f32
      %scale = math.rsqrt %safe : f32
      %scales = tensor.splat %scale : tensor<128xf32>
      %normal = arith.mulf %centred, %scales : tensor<128xf32>
      %short = arith.truncf %normal : tensor<128xf32> to tensor<128xf16>
      %weighted = arith.mulf %short, %weights : tensor<128xf16>
      %shifted = arith.addf %weighted, %biases : tensor<128xf16>
      %result = tensor.expand_shape %shifted [[0, 1]] : tensor<128xf16> into tensor<1x128xf16>
      ktdp.store %result, %yt : tensor<1x128xf16>, <1x128xindex>
    }
    return
  }
}
