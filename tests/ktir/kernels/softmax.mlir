// Row softmax with the reduce shorthand, and a select that masks the ragged end of each row.
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 255 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 511 >= 0, d1 >= 0, -d1 + 255 >= 0)>
module {
  func.func @softmax(%x: index, %y: index, %columns: i32) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %rows = arith.constant 512 : index
    %cores = arith.constant 32 : index
    %low = arith.constant 0xFC00 : f16
    %nil = arith.constant 0.0 : f16
    %lowest = tensor.splat %low : tensor<1x256xf16>
    %valid = tensor.splat %columns : tensor<1x256xi32>
    %positions = tensor.generate {
    ^bb0(%i: index, %j: index):
      %p = arith.index_cast %j : index to i32
      tensor.yield %p : i32
    } : tensor<1x256xi32>
    %inside = arith.cmpi slt, %positions, %valid : tensor<1x256xi32>
    %me = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [512, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<512x256xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [512, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<512x256xf16>
    scf.for %r = %me to %rows step %cores : index {
      %xt = ktdp.construct_access_tile %xv[%r, %zero] {access_tile_set = #row} : memref<512x256xf16> -> <1x256xindex>
      %raw = ktdp.load %xt : <1x256xindex> -> tensor<1x256xf16>
      %row = arith.select %inside, %raw, %lowest : tensor<1x256xi1>, tensor<1x256xf16>
      %lows = tensor.splat %low : tensor<1xf16>
      %peak = linalg.reduce { arith.maximumf } ins(%row : tensor<1x256xf16>) outs(%lows : tensor<1xf16>) dimensions = [1]
      %peaks = tensor.empty() : tensor<1x256xf16>
      %wide = linalg.broadcast ins(%peak : tensor<1xf16>) outs(%peaks : tensor<1x256xf16>) dimensions = [1]
      %shifted = arith.subf %row, %wide : tensor<1x256xf16>
      %e = math.exp %shifted : tensor<1x256xf16>
      %nils = tensor.splat %nil : tensor<1xf16>
      %sum = linalg.reduce { arith.addf } ins(%e : tensor<1x256xf16>) outs(%nils : tensor<1xf16>) dimensions = [1]
      %total = tensor.extract %sum[%zero] : tensor<1xf16>
      %totals = tensor.splat %total : tensor<1x256xf16>
      %q = arith.divf %e, %totals : tensor<1x256xf16>
      %yt = ktdp.construct_access_tile %yv[%r, %zero] {access_tile_set = #row} : memref<512x256xf16> -> <1x256xindex>
      ktdp.store %q, %yt : tensor<1x256xf16>, <1x256xindex>
      scf.yield
    }
    return
  }
}
