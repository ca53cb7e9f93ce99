// Four cores add their rows, in a loop with a trip count known at launch; core 0 stores.
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#line = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>
#cores = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>
#one = affine_set<(g) : (g == 0)>
module {
  func.func @ring(%x: index, %y: index, %rounds: !ktdp.runtime_arg<index, granularity=1, upperbound=16>) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %unit = arith.constant 1 : index
    %trips = ktdp.runtime_arg_extract value from %rounds : <index, granularity=1, upperbound=16> -> index
    %me = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [4, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<4x128xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [128], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %xt = ktdp.construct_access_tile %xv[%me, %zero] {access_tile_set = #row} : memref<4x128xf16> -> !ktdp.access_tile<1x128xindex>
    %part = ktdp.load %xt : <1x128xindex> -> tensor<1x128xf16>
    %nil = arith.constant dense<0.0> : tensor<1x128xf16>
    %start = arith.constant dense<0.0> : tensor<128xf16>
    %sum = scf.for %k = %zero to %trips step %unit iter_args(%so_far = %start) -> (tensor<128xf16>) {
      %f = ktdp.inter_tile_produce producer_tiles_per_group = #cores : tensor<1x128xf16> -> !ktdp.tile_future<tensor<1x128xf16>, #one> {
      ^bb0(%gid: index):
        ktdp.yield_partial %part : tensor<1x128xf16>
      }
      %all = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #cores, identity(%nil : tensor<1x128xf16>) : !ktdp.tile_future<(tensor<1x128xf16>), groups = #one> -> tensor<128xf16> {
      ^bb0(%l: tensor<1x128xf16>, %r: tensor<1x128xf16>):
        %e = tensor.empty() : tensor<1x128xf16>
        %a = linalg.add ins(%l, %r : tensor<1x128xf16>, tensor<1x128xf16>) outs(%e : tensor<1x128xf16>) -> tensor<1x128xf16>
        ktdp.yield_reduced %a : tensor<1x128xf16>
      }
      %next = arith.addf %so_far, %all : tensor<128xf16>
      scf.yield %next : tensor<128xf16>
    }
    %is_first = arith.cmpi eq, %me, %zero : index
    scf.if %is_first {
      %yt = ktdp.construct_access_tile %yv[%zero] {access_tile_set = #line} : memref<128xf16> -> !ktdp.access_tile<128xindex>
      ktdp.store %sum, %yt : tensor<128xf16>, <128xindex>
    }
    return
  }
}
