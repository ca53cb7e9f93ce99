// Attention over a paged cache: keys and values are in 20 pages of 32 positions, and a page table
// lists the pages of this sequence. Core (h, b) has head h and 32 queries and processes two pages at
// a time; otherwise this is flash_attention.mlir.
#q_all = affine_set<(h, p, c) : (h >= 0, -h + 7 >= 0, p >= 0, -p + 127 >= 0, c >= 0, -c + 63 >= 0)>
#k_all = affine_set<(n, h, t, c) : (n >= 0, -n + 19 >= 0, h >= 0, -h + 7 >= 0, t >= 0, -t + 31 >= 0, c >= 0, -c + 63 >= 0)>
#table = affine_set<(i) : (i >= 0, -i + 7 >= 0)>
#q_tile = affine_set<(h, p, c) : (h >= 0, -h >= 0, p >= 0, -p + 31 >= 0, c >= 0, -c + 63 >= 0)>
#k_tile = affine_set<(p, c) : (p >= 0, -p + 63 >= 0, c >= 0, -c + 63 >= 0)>
#same2 = affine_map<(p, c) -> (p, c)>
#same = affine_map<(h, p, c) -> (h, p, c)>
module {
  func.func @paged_attention(%q: index, %k: index, %v: index, %pages: index, %o: index, %scale: f32) attributes {grid = [8, 4]} {
    %zero = arith.constant 0 : index
    %share = arith.constant 32 : index
    %keys = arith.constant 256 : index
    %step = arith.constant 64 : index
    %h, %b = ktdp.get_compute_tile_id : index, index
    %p = arith.muli %b, %share : index
    %qs = ktdp.construct_memory_view %q, sizes: [8, 128, 64], strides: [8192, 64, 1] {coordinate_set = #q_all, memory_space = #ktdp.memory_space<global>} : memref<8x128x64xf16>
    %ks = ktdp.construct_memory_view %k, sizes: [20, 8, 32, 64], strides: [16384, 2048, 64, 1] {coordinate_set = #k_all, memory_space = #ktdp.memory_space<global>} : memref<20x8x32x64xf16>
    %vs = ktdp.construct_memory_view %v, sizes: [20, 8, 32, 64], strides: [16384, 2048, 64, 1] {coordinate_set = #k_all, memory_space = #ktdp.memory_space<global>} : memref<20x8x32x64xf16>
    %ps = ktdp.construct_memory_view %pages, sizes: [8], strides: [1] {coordinate_set = #table, memory_space = #ktdp.memory_space<global>} : memref<8xi32>
    %os = ktdp.construct_memory_view %o, sizes: [8, 128, 64], strides: [8192, 64, 1] {coordinate_set = #q_all, memory_space = #ktdp.memory_space<global>} : memref<8x128x64xf16>
    %qt = ktdp.construct_access_tile %qs[%h, %p, %zero] {access_tile_set = #q_tile, access_tile_order = #same} : memref<8x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    %qh = ktdp.load %qt : <1x32x64xindex> -> tensor<1x32x64xf16>
    %queries = tensor.collapse_shape %qh [[0, 1], [2]] : tensor<1x32x64xf16> into tensor<32x64xf16>
    %lowest = arith.constant dense<-60000.0> : tensor<32xf32>
    %nothing = arith.constant dense<0.0> : tensor<32xf32>
    %blank = arith.constant dense<0.0> : tensor<32x64xf32>
    %scales = tensor.splat %scale : tensor<32x64xf32>
    %m, %l, %acc = scf.for %at = %zero to %keys step %step iter_args(%peak = %lowest, %sum = %nothing, %so_far = %blank) -> (tensor<32xf32>, tensor<32xf32>, tensor<32x64xf32>) {
      %kt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %c) %ks[ind(%ps[(%at + %t) floordiv 32]), (%h), ((%at + %t) mod 32), (%c)] {variables_space_set = #k_tile, variables_space_order = #same2} : memref<20x8x32x64xf16>, memref<8xi32> -> !ktdp.access_tile<64x64xindex>
      %vt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %c) %vs[ind(%ps[(%at + %t) floordiv 32]), (%h), ((%at + %t) mod 32), (%c)] {variables_space_set = #k_tile, variables_space_order = #same2} : memref<20x8x32x64xf16>, memref<8xi32> -> !ktdp.access_tile<64x64xindex>
      %rows = ktdp.load %kt : <64x64xindex> -> tensor<64x64xf16>
      %values = ktdp.load %vt : <64x64xindex> -> tensor<64x64xf16>
      %turned = tensor.empty() : tensor<64x64xf16>
      %columns = linalg.transpose ins(%rows : tensor<64x64xf16>) outs(%turned : tensor<64x64xf16>) permutation = [1, 0]
      %raw = linalg.matmul ins(%queries, %columns : tensor<32x64xf16>, tensor<64x64xf16>) outs(%blank : tensor<32x64xf32>) -> tensor<32x64xf32>
      %scores = arith.mulf %raw, %scales : tensor<32x64xf32>
      %next = linalg.reduce { arith.maximumf } ins(%scores : tensor<32x64xf32>) outs(%peak : tensor<32xf32>) dimensions = [1]
      %drop = arith.subf %peak, %next : tensor<32xf32>
      %shrink = math.exp %drop : tensor<32xf32>
      %shape = tensor.empty() : tensor<32x64xf32>
      %peaks = linalg.broadcast ins(%next : tensor<32xf32>) outs(%shape : tensor<32x64xf32>) dimensions = [1]
      %shifted = arith.subf %scores, %peaks : tensor<32x64xf32>
      %powers = math.exp %shifted : tensor<32x64xf32>
      %smaller = arith.mulf %sum, %shrink : tensor<32xf32>
      %total = linalg.reduce { arith.addf } ins(%powers : tensor<32x64xf32>) outs(%smaller : tensor<32xf32>) dimensions = [1]
      %shrinks = linalg.broadcast ins(%shrink : tensor<32xf32>) outs(%shape : tensor<32x64xf32>) dimensions = [1]
      %kept = arith.mulf %so_far, %shrinks : tensor<32x64xf32>
      %weights = arith.truncf %powers : tensor<32x64xf32> to tensor<32x64xf16>
      %more = linalg.matmul ins(%weights, %values : tensor<32x64xf16>, tensor<64x64xf16>) outs(%kept : tensor<32x64xf32>) -> tensor<32x64xf32>
      scf.yield %next, %total, %more : tensor<32xf32>, tensor<32xf32>, tensor<32x64xf32>
    }
    %like = tensor.empty() : tensor<32x64xf32>
    %sums = linalg.broadcast ins(%l : tensor<32xf32>) outs(%like : tensor<32x64xf32>) dimensions = [1]
    %mean = arith.divf %acc, %sums : tensor<32x64xf32>
    %short = arith.truncf %mean : tensor<32x64xf32> to tensor<32x64xf16>
    %result = tensor.expand_shape %short [[0, 1], [2]] output_shape [1, 32, 64] : tensor<32x64xf16> into tensor<1x32x64xf16>
    %ot = ktdp.construct_access_tile %os[%h, %p, %zero] {access_tile_set = #q_tile, access_tile_order = #same} : memref<8x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    ktdp.store %result, %ot : tensor<1x32x64xf16>, <1x32x64xindex>
    return
  }
}
