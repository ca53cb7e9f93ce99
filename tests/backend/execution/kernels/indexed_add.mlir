// out[r] += src[i] for r = ids[i], in pieces of 8 rows and 64 columns.
#src = affine_set<(i, c) : (i >= 0, -i + 31 >= 0, c >= 0, -c + 127 >= 0)>
#out = affine_set<(i, c) : (i >= 0, -i + 99 >= 0, c >= 0, -c + 127 >= 0)>
#ids = affine_set<(i) : (i >= 0, -i + 31 >= 0)>
#piece = affine_set<(i, c) : (i >= 0, -i + 7 >= 0, c >= 0, -c + 63 >= 0)>
#id = affine_map<(i, c) -> (i, c)>
module {
  func.func @indexed_add(%out_ptr: index, %src_ptr: index, %ids_ptr: index) attributes {grid = [4, 2]} {
    %gx, %gy = ktdp.get_compute_tile_id : index, index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %row = arith.muli %gx, %c8 : index
    %col = arith.muli %gy, %c64 : index
    %src = ktdp.construct_memory_view %src_ptr, sizes: [32, 128], strides: [128, 1] {coordinate_set = #src, memory_space = #ktdp.memory_space<global>} : memref<32x128xf16>
    %out = ktdp.construct_memory_view %out_ptr, sizes: [100, 128], strides: [128, 1] {coordinate_set = #out, memory_space = #ktdp.memory_space<global>} : memref<100x128xf16>
    %ids = ktdp.construct_memory_view %ids_ptr, sizes: [32], strides: [1] {coordinate_set = #ids, memory_space = #ktdp.memory_space<global>} : memref<32xi64>
    %st = ktdp.construct_access_tile %src[%row, %col] {access_tile_set = #piece, access_tile_order = #id} : memref<32x128xf16> -> !ktdp.access_tile<8x64xindex>
    %t = ktdp.construct_indirect_access_tile intermediate_variables(%i, %j) %out[ind(%ids[%row + %i]), (%col + %j)] {variables_space_order = #id, variables_space_set = #piece} : memref<100x128xf16>, memref<32xi64> -> !ktdp.access_tile<8x64xindex>
    %s = ktdp.load %st : <8x64xindex> -> tensor<8x64xf16>
    %old = ktdp.load %t : <8x64xindex> -> tensor<8x64xf16>
    %new = arith.addf %old, %s : tensor<8x64xf16>
    ktdp.store %new, %t : tensor<8x64xf16>, <8x64xindex>
    return
  }
}
