// Softmax of whole wide rows in the scratchpad, as ports of GPU kernels have it: rows of 262144.
#row = affine_set<(d0) : (d0 >= 0, -d0 + 262143 >= 0)>
#id = affine_map<(d0) -> (d0)>
module {
  func.func @softmax_kernel(%output_ptr: index, %input_ptr: index, %input_row_stride: index, %output_row_stride: index, %n_rows: index, %n_cols: index) attributes {grid = [2]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %programs = arith.constant 2 : index
    %lowest = arith.constant 0xFC00 : f16
    %zero = arith.constant 0.000000e+00 : f16
    scf.for %row = %pid to %n_rows step %programs : index {
      %row_start = %row * %input_row_stride : index
      %from = %input_ptr + %row_start : index
      %view = ktdp.construct_memory_view %from, sizes: [262144], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<262144xf16>
      %tile = ktdp.construct_access_tile %view[%c0] {access_tile_set = #row} : memref<262144xf16> -> !ktdp.access_tile<262144xindex>
      %x = ktdp.load %tile : <262144xindex> -> tensor<262144xf16>
      %offsets = tensor.generate {
      ^bb0(%i: index):
        tensor.yield %i : index
      } : tensor<262144xindex>
      %n = tensor.splat %n_cols : tensor<262144xindex>
      %mask = arith.cmpi slt, %offsets, %n : tensor<262144xindex>
      %none = tensor.splat %lowest : tensor<262144xf16>
      %masked = arith.select %mask, %x, %none : tensor<262144xi1>, tensor<262144xf16>
      %init = tensor.empty() : tensor<f16>
      %seed = linalg.fill ins(%lowest : f16) outs(%init : tensor<f16>) -> tensor<f16>
      %m = linalg.reduce { arith.maximumf } ins(%masked : tensor<262144xf16>) outs(%seed : tensor<f16>) dimensions = [0]
      %like = tensor.empty() : tensor<262144xf16>
      %ms = linalg.broadcast ins(%m : tensor<f16>) outs(%like : tensor<262144xf16>) dimensions = [0]
      %shifted = arith.subf %masked, %ms : tensor<262144xf16>
      %powers = math.exp %shifted : tensor<262144xf16>
      %zero0 = linalg.fill ins(%zero : f16) outs(%init : tensor<f16>) -> tensor<f16>
      %s = linalg.reduce { arith.addf } ins(%powers : tensor<262144xf16>) outs(%zero0 : tensor<f16>) dimensions = [0]
      %ss = linalg.broadcast ins(%s : tensor<f16>) outs(%like : tensor<262144xf16>) dimensions = [0]
      %y = arith.divf %powers, %ss : tensor<262144xf16>
      %out_start = %row * %output_row_stride : index
      %to = %output_ptr + %out_start : index
      %out = ktdp.construct_memory_view %to, sizes: [262144], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<262144xf16>
      %otile = ktdp.construct_access_tile %out[%c0] {access_tile_set = #row} : memref<262144xf16> -> !ktdp.access_tile<262144xindex>
      ktdp.store %y, %otile : tensor<262144xf16>, <262144xindex>
    }
    return
  }
}
