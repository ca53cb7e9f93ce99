// Layer norm with the row's length as i32 and epsilon as f32; a core takes every 4th row, in blocks.
#blk = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>
#id1 = affine_map<(d0) -> (d0)>
module {
  func.func @layernorm(%X: index, %Y: index, %W: index, %B: index, %Mean: index, %stride: index, %M: i32, %N: i32, %eps: f32) attributes {grid = [4]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %block = arith.constant 128 : index
    %f0 = arith.constant 0.0 : f32
    %pid = ktdp.get_compute_tile_id : index
    %rows = arith.index_cast %M : i32 to index
    %n = arith.index_cast %N : i32 to index
    %nf = arith.sitofp %N : i32 to f32
    %one = arith.constant 1.0 : f32
    %inv_n = arith.divf %one, %nf : f32
    %zeros = arith.constant dense<0.0> : tensor<128xf32>
    %wv = ktdp.construct_memory_view %W, sizes: [%n], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<?xf16>
    %bv = ktdp.construct_memory_view %B, sizes: [%n], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<?xf16>
    %mv = ktdp.construct_memory_view %Mean, sizes: [%rows], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<?xf32>
    scf.for %row = %pid to %rows step %c4 {
      %off = arith.muli %row, %stride : index
      %xp = arith.addi %X, %off : index
      %yp = arith.addi %Y, %off : index
      %xv = ktdp.construct_memory_view %xp, sizes: [%n], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<?xf16>
      %yv = ktdp.construct_memory_view %yp, sizes: [%n], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<?xf16>
      %sums = scf.for %at = %c0 to %n step %block iter_args(%acc = %zeros) -> (tensor<128xf32>) {
        %t = ktdp.construct_access_tile %xv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %x = ktdp.load %t : <128xindex> -> tensor<128xf16>
        %w = arith.extf %x : tensor<128xf16> to tensor<128xf32>
        %next = arith.addf %acc, %w : tensor<128xf32>
        scf.yield %next : tensor<128xf32>
      }
      %z0 = arith.constant dense<0.0> : tensor<f32>
      %total = linalg.reduce { arith.addf } ins(%sums : tensor<128xf32>) outs(%z0 : tensor<f32>) dimensions = [0]
      %tot = tensor.extract %total[] : tensor<f32>
      %mean = arith.mulf %tot, %inv_n : f32
      %means = tensor.splat %mean : tensor<128xf32>
      %vars = scf.for %at = %c0 to %n step %block iter_args(%acc = %zeros) -> (tensor<128xf32>) {
        %t = ktdp.construct_access_tile %xv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %x = ktdp.load %t : <128xindex> -> tensor<128xf16>
        %w = arith.extf %x : tensor<128xf16> to tensor<128xf32>
        %d = arith.subf %w, %means : tensor<128xf32>
        %q = arith.mulf %d, %d : tensor<128xf32>
        %next = arith.addf %acc, %q : tensor<128xf32>
        scf.yield %next : tensor<128xf32>
      }
      %vtotal = linalg.reduce { arith.addf } ins(%vars : tensor<128xf32>) outs(%z0 : tensor<f32>) dimensions = [0]
      %vtot = tensor.extract %vtotal[] : tensor<f32>
      %var = arith.mulf %vtot, %inv_n : f32
      %safe = arith.addf %var, %eps : f32
      %rstd = math.rsqrt %safe : f32
      %rstds = tensor.splat %rstd : tensor<128xf32>
      scf.for %at = %c0 to %n step %block {
        %t = ktdp.construct_access_tile %xv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %wt = ktdp.construct_access_tile %wv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %bt = ktdp.construct_access_tile %bv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %yt = ktdp.construct_access_tile %yv[%at] {access_tile_set = #blk, access_tile_order = #id1} : memref<?xf16> -> !ktdp.access_tile<128xindex>
        %x = ktdp.load %t : <128xindex> -> tensor<128xf16>
        %w = ktdp.load %wt : <128xindex> -> tensor<128xf16>
        %b = ktdp.load %bt : <128xindex> -> tensor<128xf16>
        %xf = arith.extf %x : tensor<128xf16> to tensor<128xf32>
        %wf = arith.extf %w : tensor<128xf16> to tensor<128xf32>
        %bf = arith.extf %b : tensor<128xf16> to tensor<128xf32>
        %d = arith.subf %xf, %means : tensor<128xf32>
        %nrm = arith.mulf %d, %rstds : tensor<128xf32>
        %sc = arith.mulf %nrm, %wf : tensor<128xf32>
        %r = arith.addf %sc, %bf : tensor<128xf32>
        %r16 = arith.truncf %r : tensor<128xf32> to tensor<128xf16>
        ktdp.store %r16, %yt : tensor<128xf16>, <128xindex>
      }
      %mt = ktdp.construct_access_tile %mv[%row] {access_tile_set = affine_set<(d0) : (d0 == 0)>, access_tile_order = #id1} : memref<?xf32> -> !ktdp.access_tile<1xindex>
      %m1 = tensor.from_elements %mean : tensor<1xf32>
      ktdp.store %m1, %mt : tensor<1xf32>, <1xindex>
    }
    return
  }
}
