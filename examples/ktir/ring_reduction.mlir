// 8 cores in 2 groups of 4: every core of a group ends with the sum of the group's rows.
#all = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 127 >= 0)>
#row = affine_set<(r, c) : (r >= 0, -r >= 0, c >= 0, -c + 127 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
#group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
module {
  func.func @ring(%x: index, %y: index) attributes {grid = [8]} {
    %zero = arith.constant 0 : index
    %core = ktdp.get_compute_tile_id : index
    %xs = ktdp.construct_memory_view %x, sizes: [8, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [8, 128], strides: [128, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %xt = ktdp.construct_access_tile %xs[%core, %zero] {access_tile_set = #row, access_tile_order = #same} : memref<8x128xf16> -> !ktdp.access_tile<1x128xindex>
    %yt = ktdp.construct_access_tile %ys[%core, %zero] {access_tile_set = #row, access_tile_order = #same} : memref<8x128xf16> -> !ktdp.access_tile<1x128xindex>
    %mine = ktdp.load %xt : <1x128xindex> -> tensor<1x128xf16>
    %none = arith.constant dense<0.0> : tensor<1x128xf16>
    %future = ktdp.inter_tile_produce producer_tiles_per_group = #group -> <(tensor<1x128xf16>), groups = #groups> {
    ^bb0(%id: index):
      ktdp.yield_partial %mine : tensor<1x128xf16>
    }
    %sum = ktdp.inter_tile_reduce(%future) consumer_tiles_per_group = #group, identity(%none : tensor<1x128xf16>) : <(tensor<1x128xf16>), groups = #groups> -> tensor<1x128xf16> {
    ^bb0(%left: tensor<1x128xf16>, %right: tensor<1x128xf16>):
      %both = arith.addf %left, %right : tensor<1x128xf16>
      ktdp.yield_reduced %both : tensor<1x128xf16>
    }
    ktdp.store %sum, %yt : tensor<1x128xf16>, <1x128xindex>
    return
  }
}
