// All seven inter-tile ops on eight cores in two groups of four.
#all = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#first = affine_set<(i)[g] : (i - 4 * g == 0)>
#mirror = affine_set<(p)[c, g] : (p + c - 8 * g - 3 == 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
module {
  func.func @collectives(%x: index) attributes {grid = [8]} {
    %v = arith.constant dense<1.0> : tensor<8x64xf16>
    %nil = arith.constant dense<0.0> : tensor<8x64xf16>

    %f0 = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<8x64xf16>), groups = #groups> {
    ^bb0(%g0: index):
      ktdp.yield_partial %v : tensor<8x64xf16>
    }
    %swapped = ktdp.inter_tile_consume(%f0) consumer_tiles_per_group = #all, producer_dependency_per_consumer = #mirror : <(tensor<8x64xf16>), groups = #groups> -> tensor<8x64xf16>

    %f1 = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<8x64xf16>), groups = #groups> {
    ^bb0(%g1: index):
      ktdp.yield_partial %swapped : tensor<8x64xf16>
    }
    %sum = ktdp.inter_tile_reduce(%f1) consumer_tiles_per_group = #all, identity(%nil : tensor<8x64xf16>) : <(tensor<8x64xf16>), groups = #groups> -> tensor<8x64xf16> {
    ^bb0(%l1: tensor<8x64xf16>, %r1: tensor<8x64xf16>):
      %s1 = arith.addf %l1, %r1 : tensor<8x64xf16>
      ktdp.yield_reduced %s1 : tensor<8x64xf16>
    }

    %f2 = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<8x64xf16>), groups = #groups> {
    ^bb0(%g2: index):
      ktdp.yield_partial %sum : tensor<8x64xf16>
    }
    %slice = ktdp.inter_tile_reduce_scatter(%f2) consumer_tiles_per_group = #all, scatter_dimensions = [0], identity(%nil : tensor<8x64xf16>) : <(tensor<8x64xf16>), groups = #groups> -> tensor<2x64xf16> {
    ^bb0(%l2: tensor<8x64xf16>, %r2: tensor<8x64xf16>):
      %s2 = arith.addf %l2, %r2 : tensor<8x64xf16>
      ktdp.yield_reduced %s2 : tensor<8x64xf16>
    }

    %f3 = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<2x64xf16>), groups = #groups> {
    ^bb0(%g3: index):
      ktdp.yield_partial %slice : tensor<2x64xf16>
    }
    %whole = ktdp.inter_tile_gather(%f3) consumer_tiles_per_group = #all, gather_dimensions = [0] : <(tensor<2x64xf16>), groups = #groups> -> tensor<8x64xf16>

    %f4 = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<8x64xf16>), groups = #groups> {
    ^bb0(%g4: index):
      ktdp.yield_partial %whole : tensor<8x64xf16>
    }
    %turned = ktdp.inter_tile_all_to_all(%f4) consumer_tiles_per_group = #all, split_dimensions = [0], concat_dimensions = [1] : <(tensor<8x64xf16>), groups = #groups> -> tensor<2x256xf16>

    %f5 = ktdp.inter_tile_produce producer_tiles_per_group = #first -> <(tensor<2x256xf16>), groups = #groups> {
    ^bb0(%g5: index):
      ktdp.yield_partial %turned : tensor<2x256xf16>
    }
    %share = ktdp.inter_tile_scatter(%f5) consumer_tiles_per_group = #all, scatter_dimensions = [1] : <(tensor<2x256xf16>), groups = #groups> -> tensor<2x64xf16>
    return
  }
}
