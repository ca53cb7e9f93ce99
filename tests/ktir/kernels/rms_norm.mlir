// RMS norm on a 2x2 grid: columns are divided too, so the sums of squares cross the cores.
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#pair = affine_set<(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#squares = {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
module {
  func.func @rms_norm(%x: index, %y: index) attributes {grid = [2, 2]} {
    %four = arith.constant 4 : index
    %width = arith.constant 64 : index
    %i, %j = ktdp.get_compute_tile_id : index, index
    %column = %i * %width : index
    %row = %j * %four : index
    %xv = ktdp.construct_memory_view %x, sizes: [8, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [8, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %xt = ktdp.construct_access_tile %xv[%row, %column] {access_tile_set = #tile, access_tile_order = #id2} : memref<8x128xf16> -> !ktdp.access_tile<4x64xindex>
    %v = ktdp.load %xt : <4x64xindex> -> tensor<4x64xf16>
    %none = arith.constant dense<0.0> : tensor<4xf16>
    %part = linalg.generic #squares ins(%v : tensor<4x64xf16>) outs(%none : tensor<4xf16>) {
    ^bb0(%in: f16, %out: f16):
      %square = arith.mulf %in, %in : f16
      %sum = arith.addf %square, %out : f16
      linalg.yield %sum : f16
    } -> tensor<4xf16>
    %f = ktdp.inter_tile_produce producer_tiles_per_group = #pair -> <(tensor<4xf16>), groups = #groups>
    {
    ^bb0(%gid: index):
      ktdp.yield_partial %part : tensor<4xf16>
    }
    %total = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #pair, identity(%none : tensor<4xf16>) : <(tensor<4xf16>), groups = #groups> -> tensor<4xf16>
    {
    ^bb0(%l: tensor<4xf16>, %r: tensor<4xf16>):
      %both = arith.addf %l, %r : tensor<4xf16>
      ktdp.yield_reduced %both : tensor<4xf16>
    }
    %count = arith.constant dense<128.0> : tensor<4xf16>
    %mean = arith.divf %total, %count : tensor<4xf16>
    %scale = math.rsqrt %mean : tensor<4xf16>
    %empty = tensor.empty() : tensor<4x64xf16>
    %scales = linalg.broadcast ins(%scale : tensor<4xf16>) outs(%empty : tensor<4x64xf16>) dimensions = [1]
    %result = arith.mulf %v, %scales : tensor<4x64xf16>
    %yt = ktdp.construct_access_tile %yv[%row, %column] {access_tile_set = #tile, access_tile_order = #id2} : memref<8x128xf16> -> !ktdp.access_tile<4x64xindex>
    ktdp.store %result, %yt : tensor<4x64xf16>, <4x64xindex>
    return
  }
}
