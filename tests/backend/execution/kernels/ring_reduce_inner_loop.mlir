#all = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>
#one = affine_set<(g) : (g >= 0, -g >= 0)>
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#in = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 127 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @ring(%in: index, %out: index, %n: index) attributes {grid = [4]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %me = ktdp.get_compute_tile_id : index
    %iv = ktdp.construct_memory_view %in, sizes: [4, 128], strides: [128, 1] {coordinate_set = #in, memory_space = #ktdp.memory_space<global>} : memref<4x128xf16>
    %ov = ktdp.construct_memory_view %out, sizes: [128], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %t = ktdp.construct_access_tile %iv[%me, %c0] {access_tile_set = #row, access_tile_order = #id} : memref<4x128xf16> -> !ktdp.access_tile<1x128xindex>
    %x = ktdp.load %t : <1x128xindex> -> tensor<1x128xf16>
    %identity = arith.constant dense<0.0> : tensor<1x128xf16>
    %start = arith.constant dense<0.0> : tensor<128xf16>
    %total = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %start) -> (tensor<128xf16>) {
      %f = ktdp.inter_tile_produce producer_tiles_per_group = #all : tensor<1x128xf16> -> !ktdp.tile_future<(tensor<1x128xf16>), groups = #one> {
      ^bb0(%gid: index):
        ktdp.yield_partial %x : tensor<1x128xf16>
      }
      %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #all, identity(%identity : tensor<1x128xf16>) : !ktdp.tile_future<(tensor<1x128xf16>), groups = #one> -> tensor<128xf16> {
      ^bb0(%a: tensor<1x128xf16>, %b: tensor<1x128xf16>):
        %s = arith.addf %a, %b : tensor<1x128xf16>
        ktdp.yield_reduced %s : tensor<1x128xf16>
      }
      %next = arith.addf %acc, %r : tensor<128xf16>
      scf.yield %next : tensor<128xf16>
    }
    %is_zero = arith.cmpi eq, %me, %c0 : index
    scf.if %is_zero {
      %ot = ktdp.construct_access_tile %ov[%c0] {access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>, access_tile_order = affine_map<(d0) -> (d0)>} : memref<128xf16> -> !ktdp.access_tile<128xindex>
      ktdp.store %total, %ot : tensor<128xf16>, <128xindex>
    }
    return
  }
}
