// 32 cores add pieces of 1024 of a vector whose length the caller gives; the tail is zeros.
#piece = affine_set<(d0) : (d0 >= 0, -d0 + 1023 >= 0)>
#some = affine_set<(d0)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0)>
#id = affine_map<(d0) -> (d0)>
module {
  func.func @add_kernel(%x_ptr: index, %y_ptr: index, %output_ptr: index, %n_elements: index) attributes {grid = [32, 1, 1]} {
    %pid = ktdp.get_compute_tile_id : index
    %c1024 = arith.constant 1024 : index
    %start = arith.muli %pid, %c1024 : index
    %x_view = ktdp.construct_memory_view %x_ptr, sizes: [%n_elements], strides: [1] {coordinate_set = #some, memory_space = #ktdp.memory_space<global>} : memref<?xf32>
    %y_view = ktdp.construct_memory_view %y_ptr, sizes: [%n_elements], strides: [1] {coordinate_set = #some, memory_space = #ktdp.memory_space<global>} : memref<?xf32>
    %o_view = ktdp.construct_memory_view %output_ptr, sizes: [%n_elements], strides: [1] {coordinate_set = #some, memory_space = #ktdp.memory_space<global>} : memref<?xf32>
    %xt = ktdp.construct_access_tile %x_view[%start] {access_tile_set = #piece, access_tile_order = #id} : memref<?xf32> -> !ktdp.access_tile<1024xindex>
    %yt = ktdp.construct_access_tile %y_view[%start] {access_tile_set = #piece, access_tile_order = #id} : memref<?xf32> -> !ktdp.access_tile<1024xindex>
    %x = ktdp.load %xt : <1024xindex> -> tensor<1024xf32>
    %y = ktdp.load %yt : <1024xindex> -> tensor<1024xf32>
    %sum = arith.addf %x, %y : tensor<1024xf32>
    %ot = ktdp.construct_access_tile %o_view[%start] {access_tile_set = #piece, access_tile_order = #id} : memref<?xf32> -> !ktdp.access_tile<1024xindex>
    ktdp.store %sum, %ot : tensor<1024xf32>, <1024xindex>
    return
  }
}
