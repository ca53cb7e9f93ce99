// One row of 64 per step, strided over 32 cores; the smallest whole kernel.
#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1023 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @add(%a: index, %b: index, %c: index) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %rows = arith.constant 1024 : index
    %cores = arith.constant 32 : index
    %me = ktdp.get_compute_tile_id : index
    %av = ktdp.construct_memory_view %a, sizes: [1024, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<1024x64xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [1024, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<1024x64xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [1024, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<1024x64xf16>
    scf.for %r = %me to %rows step %cores {
      %at = ktdp.construct_access_tile %av[%r, %zero] {access_tile_set = #row, access_tile_order = #id2} : memref<1024x64xf16> -> !ktdp.access_tile<1x64xindex>
      %bt = ktdp.construct_access_tile %bv[%r, %zero] {access_tile_set = #row, access_tile_order = #id2} : memref<1024x64xf16> -> !ktdp.access_tile<1x64xindex>
      %ct = ktdp.construct_access_tile %cv[%r, %zero] {access_tile_set = #row, access_tile_order = #id2} : memref<1024x64xf16> -> !ktdp.access_tile<1x64xindex>
      %x = ktdp.load %at : <1x64xindex> -> tensor<1x64xf16>
      %y = ktdp.load %bt : <1x64xindex> -> tensor<1x64xf16>
      %s = arith.addf %x, %y : tensor<1x64xf16>
      ktdp.store %s, %ct : tensor<1x64xf16>, <1x64xindex>
    }
    return
  }
}
