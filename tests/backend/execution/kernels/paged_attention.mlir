// One query of 4 heads against a paged cache with a length of its own: the tail of the last page
// is masked. Blocks of 16 positions; softmax is carried along as (maximum, sum, result).
#q_set = affine_set<(b, h, d) : (b >= 0, -b + 1 >= 0, h >= 0, -h + 3 >= 0, d >= 0, -d + 31 >= 0)>
#q_tile = affine_set<(b, h, d) : (b == 0, h >= 0, -h + 3 >= 0, d >= 0, -d + 31 >= 0)>
#cache = affine_set<(p, t, d) : (p >= 0, -p + 9 >= 0, t >= 0, -t + 15 >= 0, d >= 0, -d + 31 >= 0)>
#page = affine_set<(t, d) : (t >= 0, -t + 15 >= 0, d >= 0, -d + 31 >= 0)>
#table = affine_set<(b, i) : (b >= 0, -b + 1 >= 0, i >= 0, -i + 3 >= 0)>
#lens = affine_set<(b) : (b >= 0, -b + 1 >= 0)>
#m2 = affine_map<(d0, d1) -> (d0, d1)>
#m3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#rows = affine_map<(d0, d1) -> (d0)>
module {
  func.func @paged_attention(%out: index, %query: index, %key_cache: index, %value_cache: index, %block_tables: index, %seq_lens: index, %scale: f32) attributes {grid = [2, 1, 1]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %qv = ktdp.construct_memory_view %query, sizes: [2, 4, 32], strides: [128, 32, 1] {coordinate_set = #q_set, memory_space = #ktdp.memory_space<global>} : memref<2x4x32xf16>
    %ov = ktdp.construct_memory_view %out, sizes: [2, 4, 32], strides: [128, 32, 1] {coordinate_set = #q_set, memory_space = #ktdp.memory_space<global>} : memref<2x4x32xf16>
    %kv = ktdp.construct_memory_view %key_cache, sizes: [10, 16, 32], strides: [512, 32, 1] {coordinate_set = #cache, memory_space = #ktdp.memory_space<global>} : memref<10x16x32xf16>
    %vv = ktdp.construct_memory_view %value_cache, sizes: [10, 16, 32], strides: [512, 32, 1] {coordinate_set = #cache, memory_space = #ktdp.memory_space<global>} : memref<10x16x32xf16>
    %tv = ktdp.construct_memory_view %block_tables, sizes: [2, 4], strides: [4, 1] {coordinate_set = #table, memory_space = #ktdp.memory_space<global>} : memref<2x4xi32>
    %lv = ktdp.construct_memory_view %seq_lens, sizes: [2], strides: [1] {coordinate_set = #lens, memory_space = #ktdp.memory_space<global>} : memref<2xi32>
    %lt = ktdp.construct_access_tile %lv[%pid] {access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 >= 0)>, access_tile_order = affine_map<(d0) -> (d0)>} : memref<2xi32> -> !ktdp.access_tile<1xindex>
    %len1 = ktdp.load %lt : <1xindex> -> tensor<1xi32>
    %len32 = tensor.extract %len1[%c0] : tensor<1xi32>
    %len = arith.index_cast %len32 : i32 to index
    %up = arith.addi %len, %c15 : index
    %blocks = arith.divsi %up, %c16 : index
    %qt = ktdp.construct_access_tile %qv[%pid, %c0, %c0] {access_tile_set = #q_tile, access_tile_order = #m3} : memref<2x4x32xf16> -> !ktdp.access_tile<1x4x32xindex>
    %q3 = ktdp.load %qt : <1x4x32xindex> -> tensor<1x4x32xf16>
    %q = tensor.collapse_shape %q3 [[0, 1], [2]] : tensor<1x4x32xf16> into tensor<4x32xf16>
    %bits = arith.constant 0xFF800000 : i32
    %lowest = arith.bitcast %bits : i32 to f32
    %m_init = tensor.splat %lowest : tensor<4xf32>
    %l_init = arith.constant dense<0.0> : tensor<4xf32>
    %o_init = arith.constant dense<0.0> : tensor<4x32xf32>
    %state:3 = scf.for %blk = %c0 to %blocks step %c1 iter_args(%m = %m_init, %l = %l_init, %acc = %o_init) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x32xf32>) {
      %kt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %d) %kv[ind(%tv[%pid, %blk]), (%t), (%d)] {variables_space_set = #page, variables_space_order = #m2} : memref<10x16x32xf16>, memref<2x4xi32> -> !ktdp.access_tile<16x32xindex>
      %vt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %d) %vv[ind(%tv[%pid, %blk]), (%t), (%d)] {variables_space_set = #page, variables_space_order = #m2} : memref<10x16x32xf16>, memref<2x4xi32> -> !ktdp.access_tile<16x32xindex>
      %k = ktdp.load %kt : <16x32xindex> -> tensor<16x32xf16>
      %v = ktdp.load %vt : <16x32xindex> -> tensor<16x32xf16>
      %ke = tensor.empty() : tensor<32x16xf16>
      %ktr = linalg.transpose ins(%k : tensor<16x32xf16>) outs(%ke : tensor<32x16xf16>) permutation = [1, 0]
      %s_init = arith.constant dense<0.0> : tensor<4x16xf32>
      %raw = linalg.matmul ins(%q, %ktr : tensor<4x32xf16>, tensor<32x16xf16>) outs(%s_init : tensor<4x16xf32>) -> tensor<4x16xf32>
      %start = arith.muli %blk, %c16 : index
      %se = tensor.empty() : tensor<4x16xf32>
      %scores = linalg.generic {indexing_maps = [#m2, #m2], iterator_types = ["parallel", "parallel"]} ins(%raw : tensor<4x16xf32>) outs(%se : tensor<4x16xf32>) {
      ^bb0(%x: f32, %o: f32):
        %j = linalg.index 1 : index
        %pos = arith.addi %start, %j : index
        %ok = arith.cmpi slt, %pos, %len : index
        %sx = arith.mulf %x, %scale : f32
        %r = arith.select %ok, %sx, %lowest : f32
        linalg.yield %r : f32
      } -> tensor<4x16xf32>
      %m_new = linalg.reduce { arith.maximumf } ins(%scores : tensor<4x16xf32>) outs(%m : tensor<4xf32>) dimensions = [1]
      %p = linalg.generic {indexing_maps = [#m2, #rows, #m2], iterator_types = ["parallel", "parallel"]} ins(%scores, %m_new : tensor<4x16xf32>, tensor<4xf32>) outs(%se : tensor<4x16xf32>) {
      ^bb0(%x: f32, %mx: f32, %o: f32):
        %dx = arith.subf %x, %mx : f32
        %ex = math.exp %dx : f32
        linalg.yield %ex : f32
      } -> tensor<4x16xf32>
      %dm = arith.subf %m, %m_new : tensor<4xf32>
      %alpha = math.exp %dm : tensor<4xf32>
      %l_small = arith.mulf %l, %alpha : tensor<4xf32>
      %l_new = linalg.reduce { arith.addf } ins(%p : tensor<4x16xf32>) outs(%l_small : tensor<4xf32>) dimensions = [1]
      %ae = tensor.empty() : tensor<4x32xf32>
      %alphas = linalg.broadcast ins(%alpha : tensor<4xf32>) outs(%ae : tensor<4x32xf32>) dimensions = [1]
      %kept = arith.mulf %acc, %alphas : tensor<4x32xf32>
      %p16 = arith.truncf %p : tensor<4x16xf32> to tensor<4x16xf16>
      %acc_new = linalg.matmul ins(%p16, %v : tensor<4x16xf16>, tensor<16x32xf16>) outs(%kept : tensor<4x32xf32>) -> tensor<4x32xf32>
      scf.yield %m_new, %l_new, %acc_new : tensor<4xf32>, tensor<4xf32>, tensor<4x32xf32>
    }
    %oe = tensor.empty() : tensor<4x32xf32>
    %ls = linalg.broadcast ins(%state#1 : tensor<4xf32>) outs(%oe : tensor<4x32xf32>) dimensions = [1]
    %res = arith.divf %state#2, %ls : tensor<4x32xf32>
    %res16 = arith.truncf %res : tensor<4x32xf32> to tensor<4x32xf16>
    %res3 = tensor.expand_shape %res16 [[0, 1], [2]] output_shape [1, 4, 32] : tensor<4x32xf16> into tensor<1x4x32xf16>
    %ot = ktdp.construct_access_tile %ov[%pid, %c0, %c0] {access_tile_set = #q_tile, access_tile_order = #m3} : memref<2x4x32xf16> -> !ktdp.access_tile<1x4x32xindex>
    ktdp.store %res3, %ot : tensor<1x4x32xf16>, <1x4x32xindex>
    return
  }
}
