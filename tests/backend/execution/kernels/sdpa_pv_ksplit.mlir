// P V with the keys in 8 parts on 32 cores: cores of one remainder of 4 add their parts.
#p_all = affine_set<(m, k) : (m >= 0, -m + 63 >= 0, k >= 0, -k + 511 >= 0)>
#v_all = affine_set<(k, n) : (k >= 0, -k + 511 >= 0, n >= 0, -n + 63 >= 0)>
#o_all = affine_set<(m, n) : (m >= 0, -m + 63 >= 0, n >= 0, -n + 63 >= 0)>
#p_tile = affine_set<(m, k) : (m >= 0, -m + 15 >= 0, k >= 0, -k + 63 >= 0)>
#v_tile = affine_set<(k, n) : (k >= 0, -k + 63 >= 0, n >= 0, -n + 63 >= 0)>
#o_tile = affine_set<(m, n) : (m >= 0, -m + 15 >= 0, n >= 0, -n + 63 >= 0)>
#same_m = affine_set<(i)[g] : (i >= 0, -i + 31 >= 0, (i - g) mod 4 == 0)>
#first = affine_set<(i)[g] : (i - g == 0)>
#id = affine_map<(a, b) -> (a, b)>
module {
  func.func @sdpa_pv(%P: index, %V: index, %O: index) attributes {grid = [32]} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %id = ktdp.get_compute_tile_id : index
    %mi = arith.remui %id, %c4 : index
    %ki = arith.divui %id, %c4 : index
    %m = arith.muli %mi, %c16 : index
    %k = arith.muli %ki, %c64 : index
    %pv = ktdp.construct_memory_view %P, sizes: [64, 512], strides: [512, 1] {coordinate_set = #p_all, memory_space = #ktdp.memory_space<global>} : memref<64x512xf16>
    %vv = ktdp.construct_memory_view %V, sizes: [512, 64], strides: [64, 1] {coordinate_set = #v_all, memory_space = #ktdp.memory_space<global>} : memref<512x64xf16>
    %ov = ktdp.construct_memory_view %O, sizes: [64, 64], strides: [64, 1] {coordinate_set = #o_all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %pt = ktdp.construct_access_tile %pv[%m, %k] {access_tile_set = #p_tile, access_tile_order = #id} : memref<64x512xf16> -> !ktdp.access_tile<16x64xindex>
    %vt = ktdp.construct_access_tile %vv[%k, %c0] {access_tile_set = #v_tile, access_tile_order = #id} : memref<512x64xf16> -> !ktdp.access_tile<64x64xindex>
    %p = ktdp.load %pt : <16x64xindex> -> tensor<16x64xf16>
    %v = ktdp.load %vt : <64x64xindex> -> tensor<64x64xf16>
    %zero = arith.constant dense<0.0> : tensor<16x64xf16>
    %part = linalg.matmul ins(%p, %v : tensor<16x64xf16>, tensor<64x64xf16>) outs(%zero : tensor<16x64xf16>) -> tensor<16x64xf16>
    %f = ktdp.inter_tile_produce producer_tiles_per_group = #same_m -> !ktdp.tile_future<tensor<16x64xf16>, affine_set<(g) : (g >= 0, -g + 3 >= 0)>>
    {
      ^bb0(%gid: index):
        ktdp.yield_partial %part : tensor<16x64xf16>
    }
    %o = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #first, identity(%zero : tensor<16x64xf16>) : !ktdp.tile_future<tensor<16x64xf16>, affine_set<(g) : (g >= 0, -g + 3 >= 0)>> -> tensor<16x64xf16>
    {
      ^bb0(%l: tensor<16x64xf16>, %r: tensor<16x64xf16>):
        %s = arith.addf %l, %r : tensor<16x64xf16>
        ktdp.yield_reduced %s : tensor<16x64xf16>
    }
    %writes = arith.cmpi ult, %id, %c4 : index
    scf.if %writes {
      %ot = ktdp.construct_access_tile %ov[%m, %c0] {access_tile_set = #o_tile, access_tile_order = #id} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
      ktdp.store %o, %ot : tensor<16x64xf16>, <16x64xindex>
    }
    return
  }
}
