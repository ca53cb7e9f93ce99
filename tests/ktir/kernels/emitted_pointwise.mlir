// What the emitter writes for pointwise ops: baked addresses, `spyreop` inside `linalg.generic`.
#box = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @emitted() attributes {grid = [4]} {
    %base = arith.constant 32768 : index
    %next = arith.constant 36864 : index
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %sixteen = arith.constant 16 : index
    %id = ktdp.get_compute_tile_id : index
    %inner = arith.remui %id, %sixteen : index
    %row = arith.muli %inner, %sixteen : index
    scf.for %t = %zero to %one step %one {
      %xv = ktdp.construct_memory_view %base, sizes: [64, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
      %xt = ktdp.construct_access_tile %xv[%row, %zero] {access_tile_set = #box, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
      %x = ktdp.load %xt : <16x64xindex> -> tensor<16x64xf16>
      %e0 = tensor.empty() : tensor<16x64xf16>
      %y = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x64xf16>) outs(%e0 : tensor<16x64xf16>) {
      ^bb0(%in: f16, %out: f16):
        %a = spyreop.sigmoid %in : f16
        %b = spyreop.softplus %a beta 1.0 threshold 20.0 : f16
        %c = spyreop.realdiv %a, %b : f16
        linalg.yield %c : f16
      } -> tensor<16x64xf16>
      %e1 = tensor.empty() : tensor<16x64xf16>
      %z = linalg.mul ins(%x, %y : tensor<16x64xf16>, tensor<16x64xf16>) outs(%e1 : tensor<16x64xf16>) -> tensor<16x64xf16>
      %zv = ktdp.construct_memory_view %next, sizes: [64, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
      %zt = ktdp.construct_access_tile %zv[%row, %zero] {access_tile_set = #box, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<16x64xindex>
      ktdp.store %z, %zt : tensor<16x64xf16>, <16x64xindex>
    }
    return
  }
}
