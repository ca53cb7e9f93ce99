// z = x + y for 32768 f16 elements: each of 32 cores adds 1024 of them.
#all = affine_set<(i) : (i >= 0, -i + 32767 >= 0)>
#part = affine_set<(i) : (i >= 0, -i + 1023 >= 0)>
#same = affine_map<(i) -> (i)>
module {
  func.func @add(%x: index, %y: index, %z: index) attributes {grid = [32]} {
    %size = arith.constant 1024 : index
    %core = ktdp.get_compute_tile_id : index
    %start = arith.muli %core, %size : index
    %xs = ktdp.construct_memory_view %x, sizes: [32768], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<32768xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [32768], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<32768xf16>
    %zs = ktdp.construct_memory_view %z, sizes: [32768], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<32768xf16>
    %xt = ktdp.construct_access_tile %xs[%start] {access_tile_set = #part, access_tile_order = #same} : memref<32768xf16> -> !ktdp.access_tile<1024xindex>
    %yt = ktdp.construct_access_tile %ys[%start] {access_tile_set = #part, access_tile_order = #same} : memref<32768xf16> -> !ktdp.access_tile<1024xindex>
    %zt = ktdp.construct_access_tile %zs[%start] {access_tile_set = #part, access_tile_order = #same} : memref<32768xf16> -> !ktdp.access_tile<1024xindex>
    %a = ktdp.load %xt : <1024xindex> -> tensor<1024xf16>
    %b = ktdp.load %yt : <1024xindex> -> tensor<1024xf16>
    %sum = arith.addf %a, %b : tensor<1024xf16>
    ktdp.store %sum, %zt : tensor<1024xf16>, <1024xindex>
    return
  }
}
