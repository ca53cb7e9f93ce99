// y = (silu(x g) * (x u)) d: a SwiGLU feed-forward of 64 tokens, width 128, hidden 256.
// Each of 4 cores has 16 tokens and all weights; intermediates stay on the core.
#x_all = affine_set<(t, c) : (t >= 0, -t + 63 >= 0, c >= 0, -c + 127 >= 0)>
#up = affine_set<(c, h) : (c >= 0, -c + 127 >= 0, h >= 0, -h + 255 >= 0)>
#down = affine_set<(h, c) : (h >= 0, -h + 255 >= 0, c >= 0, -c + 127 >= 0)>
#tokens = affine_set<(t, c) : (t >= 0, -t + 15 >= 0, c >= 0, -c + 127 >= 0)>
#same = affine_map<(i, j) -> (i, j)>
module {
  func.func @swiglu(%x: index, %gate: index, %up: index, %down: index, %y: index) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %share = arith.constant 16 : index
    %core = ktdp.get_compute_tile_id : index
    %t = arith.muli %core, %share : index
    %xs = ktdp.construct_memory_view %x, sizes: [64, 128], strides: [128, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %gs = ktdp.construct_memory_view %gate, sizes: [128, 256], strides: [256, 1] {coordinate_set = #up, memory_space = #ktdp.memory_space<global>} : memref<128x256xf16>
    %us = ktdp.construct_memory_view %up, sizes: [128, 256], strides: [256, 1] {coordinate_set = #up, memory_space = #ktdp.memory_space<global>} : memref<128x256xf16>
    %ds = ktdp.construct_memory_view %down, sizes: [256, 128], strides: [128, 1] {coordinate_set = #down, memory_space = #ktdp.memory_space<global>} : memref<256x128xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [64, 128], strides: [128, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<64x128xf16>
    %xt = ktdp.construct_access_tile %xs[%t, %zero] {access_tile_set = #tokens, access_tile_order = #same} : memref<64x128xf16> -> !ktdp.access_tile<16x128xindex>
    %gt = ktdp.construct_access_tile %gs[%zero, %zero] {access_tile_set = #up, access_tile_order = #same} : memref<128x256xf16> -> !ktdp.access_tile<128x256xindex>
    %ut = ktdp.construct_access_tile %us[%zero, %zero] {access_tile_set = #up, access_tile_order = #same} : memref<128x256xf16> -> !ktdp.access_tile<128x256xindex>
    %dt = ktdp.construct_access_tile %ds[%zero, %zero] {access_tile_set = #down, access_tile_order = #same} : memref<256x128xf16> -> !ktdp.access_tile<256x128xindex>
    %yt = ktdp.construct_access_tile %ys[%t, %zero] {access_tile_set = #tokens, access_tile_order = #same} : memref<64x128xf16> -> !ktdp.access_tile<16x128xindex>
    %in = ktdp.load %xt : <16x128xindex> -> tensor<16x128xf16>
    %wg = ktdp.load %gt : <128x256xindex> -> tensor<128x256xf16>
    %wu = ktdp.load %ut : <128x256xindex> -> tensor<128x256xf16>
    %wd = ktdp.load %dt : <256x128xindex> -> tensor<256x128xf16>
    %none = arith.constant dense<0.0> : tensor<16x256xf16>
    %g = linalg.matmul ins(%in, %wg : tensor<16x128xf16>, tensor<128x256xf16>) outs(%none : tensor<16x256xf16>) -> tensor<16x256xf16>
    %u = linalg.matmul ins(%in, %wu : tensor<16x128xf16>, tensor<128x256xf16>) outs(%none : tensor<16x256xf16>) -> tensor<16x256xf16>
    %like = tensor.empty() : tensor<16x256xf16>
    %h = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%g, %u : tensor<16x256xf16>, tensor<16x256xf16>) outs(%like : tensor<16x256xf16>) {
    ^bb0(%gated: f16, %linear: f16, %unused: f16):
      %active = spyreop.silu %gated : f16
      %product = arith.mulf %active, %linear : f16
      linalg.yield %product : f16
    } -> tensor<16x256xf16>
    %zeros = arith.constant dense<0.0> : tensor<16x128xf16>
    %out = linalg.matmul ins(%h, %wd : tensor<16x256xf16>, tensor<256x128xf16>) outs(%zeros : tensor<16x128xf16>) -> tensor<16x128xf16>
    ktdp.store %out, %yt : tensor<16x128xf16>, <16x128xindex>
    return
  }
}
