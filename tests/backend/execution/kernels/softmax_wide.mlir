// Softmax of rows of up to 262144, of which `n_cols` count: two passes over pieces of a row.
#piece = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 32767 >= 0)>
#rows = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 262143 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @softmax_kernel(%output_ptr: index, %input_ptr: index, %n_cols: i32) attributes {grid = [2]} {
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %width = arith.constant 262144 : index
    %piece = arith.constant 32768 : index
    %lowest = arith.constant dense<0xFC00> : tensor<1x32768xf16>
    %lowest1 = arith.constant dense<0xFC00> : tensor<1xf16>
    %zero1 = arith.constant dense<0.0> : tensor<1xf32>
    %none = arith.constant dense<0.0> : tensor<1x32768xf16>
    %pid = ktdp.get_compute_tile_id : index
    %in = ktdp.construct_memory_view %input_ptr, sizes : [2, 262144], strides : [262144, 1] {
      coordinate_set = #rows, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<2x262144xf16>
    %out = ktdp.construct_memory_view %output_ptr, sizes : [2, 262144], strides : [262144, 1] {
      coordinate_set = #rows, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<2x262144xf16>
    %columns = tensor.generate {
    ^bb0(%i: index, %j: index):
      %c = arith.index_cast %j : index to i32
      tensor.yield %c : i32
    } : tensor<1x32768xi32>
    %max = scf.for %at = %c0 to %width step %piece iter_args(%peak = %lowest1) -> tensor<1xf16> {
      %t = ktdp.construct_access_tile %in[%pid, %at] {access_tile_set = #piece, access_tile_order = #id} : memref<2x262144xf16> -> !ktdp.access_tile<1x32768xindex>
      %x = ktdp.load %t : <1x32768xindex> -> tensor<1x32768xf16>
      %at32 = arith.index_cast %at : index to i32
      %left = arith.subi %n_cols, %at32 : i32
      %lefts = tensor.splat %left : tensor<1x32768xi32>
      %mask = arith.cmpi slt, %columns, %lefts : tensor<1x32768xi32>
      %m = arith.select %mask, %x, %lowest : tensor<1x32768xi1>, tensor<1x32768xf16>
      %next = linalg.reduce { arith.maximumf } ins(%m : tensor<1x32768xf16>) outs(%peak : tensor<1xf16>) dimensions = [1]
      scf.yield %next : tensor<1xf16>
    }
    %like = tensor.empty() : tensor<1x32768xf16>
    %peaks = linalg.broadcast ins(%max : tensor<1xf16>) outs(%like : tensor<1x32768xf16>) dimensions = [1]
    %sum = scf.for %at = %c0 to %width step %piece iter_args(%so_far = %zero1) -> tensor<1xf32> {
      %t = ktdp.construct_access_tile %in[%pid, %at] {access_tile_set = #piece, access_tile_order = #id} : memref<2x262144xf16> -> !ktdp.access_tile<1x32768xindex>
      %x = ktdp.load %t : <1x32768xindex> -> tensor<1x32768xf16>
      %at32 = arith.index_cast %at : index to i32
      %left = arith.subi %n_cols, %at32 : i32
      %lefts = tensor.splat %left : tensor<1x32768xi32>
      %mask = arith.cmpi slt, %columns, %lefts : tensor<1x32768xi32>
      %shifted = arith.subf %x, %peaks : tensor<1x32768xf16>
      %power = math.exp %shifted : tensor<1x32768xf16>
      %kept = arith.select %mask, %power, %none : tensor<1x32768xi1>, tensor<1x32768xf16>
      %wide = arith.extf %kept : tensor<1x32768xf16> to tensor<1x32768xf32>
      %next = linalg.reduce { arith.addf } ins(%wide : tensor<1x32768xf32>) outs(%so_far : tensor<1xf32>) dimensions = [1]
      ktdp.store %kept, %t : tensor<1x32768xf16>, <1x32768xindex>
      scf.yield %next : tensor<1xf32>
    }
    %likef = tensor.empty() : tensor<1x32768xf32>
    %sums = linalg.broadcast ins(%sum : tensor<1xf32>) outs(%likef : tensor<1x32768xf32>) dimensions = [1]
    scf.for %at = %c0 to %width step %piece {
      %t = ktdp.construct_access_tile %in[%pid, %at] {access_tile_set = #piece, access_tile_order = #id} : memref<2x262144xf16> -> !ktdp.access_tile<1x32768xindex>
      %o = ktdp.construct_access_tile %out[%pid, %at] {access_tile_set = #piece, access_tile_order = #id} : memref<2x262144xf16> -> !ktdp.access_tile<1x32768xindex>
      %x = ktdp.load %t : <1x32768xindex> -> tensor<1x32768xf16>
      %wide = arith.extf %x : tensor<1x32768xf16> to tensor<1x32768xf32>
      %q = arith.divf %wide, %sums : tensor<1x32768xf32>
      %y = arith.truncf %q : tensor<1x32768xf32> to tensor<1x32768xf16>
      ktdp.store %y, %o : tensor<1x32768xf16>, <1x32768xindex>
      scf.yield
    }
    return
  }
}
