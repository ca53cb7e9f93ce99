// Softmax of the rows of a 512x1024 matrix; core c processes rows c, c + 32, and so on.
#all = affine_set<(r, c) : (r >= 0, -r + 511 >= 0, c >= 0, -c + 1023 >= 0)>
#row = affine_set<(r, c) : (r >= 0, -r >= 0, c >= 0, -c + 1023 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
module {
  func.func @softmax(%x: index, %y: index) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %rows = arith.constant 512 : index
    %cores = arith.constant 32 : index
    %lowest = arith.constant 0xFC00 : f16
    %nothing = arith.constant 0.0 : f16
    %core = ktdp.get_compute_tile_id : index
    %xs = ktdp.construct_memory_view %x, sizes: [512, 1024], strides: [1024, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<512x1024xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [512, 1024], strides: [1024, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<512x1024xf16>
    scf.for %r = %core to %rows step %cores {
      %xt = ktdp.construct_access_tile %xs[%r, %zero] {access_tile_set = #row, access_tile_order = #same} : memref<512x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      %yt = ktdp.construct_access_tile %ys[%r, %zero] {access_tile_set = #row, access_tile_order = #same} : memref<512x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      %row = ktdp.load %xt : <1x1024xindex> -> tensor<1x1024xf16>
      %floor = tensor.splat %lowest : tensor<1xf16>
      %peaks = linalg.reduce { arith.maximumf } ins(%row : tensor<1x1024xf16>) outs(%floor : tensor<1xf16>) dimensions = [1]
      %peak = tensor.extract %peaks[%zero] : tensor<1xf16>
      %spread = tensor.splat %peak : tensor<1x1024xf16>
      %shifted = arith.subf %row, %spread : tensor<1x1024xf16>
      %powers = math.exp %shifted : tensor<1x1024xf16>
      %empty = tensor.splat %nothing : tensor<1xf16>
      %sums = linalg.reduce { arith.addf } ins(%powers : tensor<1x1024xf16>) outs(%empty : tensor<1xf16>) dimensions = [1]
      %sum = tensor.extract %sums[%zero] : tensor<1xf16>
      %divisor = tensor.splat %sum : tensor<1x1024xf16>
      %result = arith.divf %powers, %divisor : tensor<1x1024xf16>
      ktdp.store %result, %yt : tensor<1x1024xf16>, <1x1024xindex>
    }
    return
  }
}
