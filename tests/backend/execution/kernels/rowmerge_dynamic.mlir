// Two matrices of heights known at run time, one below the other, copied in tiles of 4 rows.
#low = affine_set<(i, j)[s0] : (i >= 0, -i + s0 - 1 >= 0, j >= 0, -j + 15 >= 0)>
#tile = affine_set<(i, j) : (i >= 0, -i + 3 >= 0, j >= 0, -j + 15 >= 0)>
func.func @merge(%a: index, %b: index, %out: index, %m: index) attributes {grid = [3]} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %me = ktdp.get_compute_tile_id : index
  %r = %me * %c4 : index
  %va = ktdp.construct_memory_view %a, sizes: [%m, 16], strides: [16, 1] {coordinate_set = #low, memory_space = #ktdp.memory_space<global>} : memref<?x16xf16>
  %vb = ktdp.construct_memory_view %b, sizes: [%m, 16], strides: [1, %m] {coordinate_set = affine_set<(i, j)[s0] : (i - s0 >= 0, -i + 2 * s0 - 1 >= 0, j >= 0, -j + 15 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<?x16xf16>
  %v = ktdp.construct_distributed_memory_view (%va, %vb : memref<?x16xf16>, memref<?x16xf16>) : memref<?x16xf16>
  %t = ktdp.construct_access_tile %v[%r, %c0] {access_tile_set = #tile} : memref<?x16xf16> -> <4x16xindex>
  %x = ktdp.load %t : <4x16xindex> -> tensor<4x16xf16>
  %vo = ktdp.construct_memory_view %out, sizes: [12, 16], strides: [16, 1] {memory_space = #ktdp.memory_space<global>} : memref<12x16xf16>
  %o = ktdp.construct_access_tile %vo[%r, %c0] {access_tile_set = #tile} -> <4x16xindex>
  ktdp.store %x, %o : tensor<4x16xf16>, <4x16xindex>
  return
}
